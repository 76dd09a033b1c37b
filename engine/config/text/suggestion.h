#pragma once

#include <string>
#include <vector>

#include "engine/config/fields/field.h"
#include "engine/config/text/nearest_word.h"

namespace trainer {

/// The key that `word` most likely stands for: one that other programs call so, else the nearest of `keys`; "" where
/// neither. `fields` may reach beyond `keys`; their synonyms count where the last part of their key is among them.
template <class Owner>
std::string suggest_key(const std::string& word, const std::vector<Field<Owner>>& fields,
                        const std::vector<std::string>& keys) {
  for (const auto& field : fields) {
    for (const std::string& synonym : field.synonyms) {
      if (synonym == word) return field.key;
    }
  }
  return std::string(nearest(word, keys));
}

}  // namespace trainer
