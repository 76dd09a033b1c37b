#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// How a tensor of a model is called, and lies, in a file that others read.
struct ExportedName {
  std::string name;
  bool is_transposed = false;  ///< of a matrix
  bool has_three_axes = false;
};

/// By `map`, which `names` of a model's tensors are to be read with: the map makes each name of the model's out of the
/// one that is written, and ignores none of them. Without NameMap::save, the written name is the one that `rename`
/// backwards gives, or the model's own, whichever of them the map reads as the model's. So no two are the same.
/// Throws ConfigError, with the map's place, where that is both or none, where `rename` has expressions of more than
/// one text, and where what is written would be read as another or not at all.
std::vector<ExportedName> exported_names(const NameMap& map, std::span<const std::string> names);

/// The map of that name. Throws ConfigError that lists those there are.
const NameMap& find_map(const std::vector<NameMap>& maps, const std::string& name);

}  // namespace trainer
