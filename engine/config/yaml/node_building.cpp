#include "engine/config/yaml/node_building.h"

namespace trainer {

Node null_node() {
  Node node;
  node.kind = NodeKind::null;
  return node;
}

Node scalar_node(std::string text, const Mark& mark) {
  Node node;
  node.kind = NodeKind::scalar;
  node.text = std::move(text);
  node.mark = mark;
  return node;
}

Node list_node(const std::vector<std::string>& texts, const Mark& mark) {
  Node list;
  list.kind = NodeKind::sequence;
  list.mark = mark;
  for (const std::string& text : texts) {
    list.items.push_back(scalar_node(text, mark));
    list.items.back().quoted = true;
  }
  return list;
}

Node map_node(const Mark& mark, const std::vector<std::pair<std::string, Node>>& entries) {
  Node map;
  map.kind = NodeKind::map;
  map.mark = mark;
  map.entries.reserve(entries.size());
  for (const auto& [key, value] : entries) map.entries.push_back({key, mark, value});
  return map;
}

void erase_key(Node& map, std::string_view key) {
  std::erase_if(map.entries, [&](const MapEntry& entry) { return entry.key == key; });
}

std::optional<Node> taken(Node& map, std::string_view key) {
  Node* const found = map.find(key);
  if (found == nullptr) return std::nullopt;
  Node value = std::move(*found);
  erase_key(map, key);
  if (value.kind == NodeKind::null) return std::nullopt;
  return value;
}

}  // namespace trainer
