#pragma once

#include <string>

#include "engine/config/yaml/config_node.h"

namespace trainer {

/// A tree as YAML that every YAML reader takes for the same values; ends with a newline.
std::string yaml_text(const Node& root);

/// A tree as JSON; `indent` below 0: on one line. Scalars that are not quoted are numbers, true or false.
std::string json_text(const Node& root, int indent);

/// A value as YAML on one line, without a newline.
std::string flow_text(const Node& value);

}  // namespace trainer
