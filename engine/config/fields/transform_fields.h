#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/fields/field.h"
#include "engine/config/transform_spec.h"

namespace trainer {

/// One kind of transform and its keys.
struct TransformKind {
  std::string name;
  std::string help;
  std::string example;
  TransformVariant initial;  ///< every default
  std::vector<Field<TransformSpec>> fields;
  std::vector<std::string> synonyms;  ///< what other programs call it, for suggestions

  bool has_required_key() const;
  std::vector<std::string> keys() const;
};

/// All kinds, in the order of the reference page.
const std::vector<TransformKind>& transform_kinds();
const TransformKind* find_transform_kind(std::string_view name);
std::vector<std::string> transform_kind_names();

}  // namespace trainer
