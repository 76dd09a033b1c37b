#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/fields/field.h"

namespace trainer {

/// "train" and "batch_size" make "train.batch_size"; "" and "name" make "name".
std::string join_key(std::string_view section, std::string_view key);

/// Everything before the last dot; "" where there is none.
std::string_view section_of(std::string_view key);

/// What stands behind the last dot.
std::string_view last_of(std::string_view key);

/// The field of that key; null where there is none.
template <class Owner>
const Field<Owner>* find_field(const std::vector<Field<Owner>>& fields, std::string_view key) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.key == key; });
  return found == fields.end() ? nullptr : &*found;
}

/// Names of the keys directly in a section ("" is the whole file), in order: fields and sections. Empty where no field
/// lies in it.
template <class Owner>
std::vector<std::string> keys_of_section(const std::vector<Field<Owner>>& fields, std::string_view section) {
  std::vector<std::string> keys;
  for (const Field<Owner>& field : fields) {
    std::string_view rest = field.key;
    if (!section.empty()) {
      if (!rest.starts_with(section) || rest.substr(section.size(), 1) != ".") continue;
      rest.remove_prefix(section.size() + 1);
    }
    std::string key(rest.substr(0, rest.find('.')));
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace trainer
