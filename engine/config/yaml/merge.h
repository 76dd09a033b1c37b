#pragma once

#include <string>

#include "engine/config/yaml/config_node.h"

namespace trainer {

/// Whether a map is one value: that of a key, but for those that hold names, and a block of the model.
bool is_replaced_whole(const std::string& path);

/// Whether the section at `path` names another `type` than it had, so that its other keys are of what it was.
bool starts_section_anew(const Node& before, const Node& after, const std::string& path);

/// What the child says goes before what the base says; maps are merged key by key, everything else is replaced, also a
/// map that is the value of a key.
void merge_into(Node& base, Node child, const std::string& path = "");

}  // namespace trainer
