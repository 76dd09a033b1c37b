#pragma once

#include <string>

#include "engine/config/yaml/source_set.h"

namespace trainer {

/// Sets one value of the tree from a command-line argument "dotted.key=value", value in YAML. Components that are
/// numbers are positions in lists; maps on the way are made where absent. Reports what cannot be set, naming the
/// argument.
void apply_override(Node& root, const std::string& argument, SourceSet& sources);

}  // namespace trainer
