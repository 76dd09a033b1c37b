#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/fields/field.h"
#include "engine/config/layer_spec.h"

namespace trainer {

/// Of LayerKind::max_inputs: as many as are named.
inline constexpr int any_number = std::numeric_limits<int>::max();

/// One kind of layer and its keys. `name`, `from`, `when` and `share` are not among them.
struct LayerKind {
  std::string name;
  std::string help;
  std::string example;
  LayerVariant initial;  ///< every default
  std::vector<Field<LayerSpec>> fields;
  /// Whether a sample's result depends on how the batch is cut; null: no layer's of this kind does.
  bool (*depends_on_batch)(const LayerVariant&) = nullptr;
  bool takes_one = true;               ///< input: the layer before it, where `from` is not given
  int min_inputs = 1, max_inputs = 1;  ///< of a list that `from` gives
  bool has_parameters = false;         ///< or layers that may have some: it takes `share`

  bool takes_several() const { return max_inputs > 1; }  ///< inputs, by a list
  bool has_required_key() const;
  std::vector<std::string> keys() const;  ///< of the fields, `name`, `from`, `share`, `when` and, of a repeat, `as`
};

/// All kinds, in the order of the reference page.
const std::vector<LayerKind>& layer_kinds();
const LayerKind* find_layer_kind(std::string_view name);
std::vector<std::string> layer_kind_names();

/// What `from` is to a layer of the kind.
std::string from_help(const LayerKind& kind);
/// What `share` is to a layer that has parameters.
inline constexpr std::string_view share_help =
    "The layer before it whose parameters it uses, by name or path; its own where not given";
/// What `when` is to any layer, and `as` to a repeat.
inline constexpr std::string_view when_help = "Whether the layer is there; it is where not given";
inline constexpr std::string_view as_help =
    "A name for the number of the copy, from 0; the copies then stand in the list where the repeat stands";

/// Of `model.init` and of a layer's `init`.
EnumRule<Initialization> initialization_choices();

}  // namespace trainer
