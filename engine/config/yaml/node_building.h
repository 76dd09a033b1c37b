#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/yaml/config_node.h"

namespace trainer {

// Nodes that stand for what a file could have said, at the place of what they come from.

Node null_node();
Node scalar_node(std::string text, const Mark& mark);
/// Of quoted texts.
Node list_node(const std::vector<std::string>& texts, const Mark& mark);
Node map_node(const Mark& mark, const std::vector<std::pair<std::string, Node>>& entries);

void erase_key(Node& map, std::string_view key);
/// What a map has under a key, which goes; nothing where that is null or not there.
std::optional<Node> taken(Node& map, std::string_view key);

}  // namespace trainer
