#include "engine/config/yaml/short_forms.h"

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/yaml/node_building.h"

namespace trainer {
namespace {

void expand_word(Node& node) {
  Node map;
  map.kind = NodeKind::map;
  map.mark = node.mark;
  const Mark mark = node.mark;
  map.entries.push_back({"type", mark, std::move(node)});
  node = std::move(map);
}

bool is_choice(const ExperimentField& type, const std::string& name) {
  for (const Choice& each : type.rule.choices) {
    if (each.name == name) return true;
  }
  return false;
}

void expand_one_key(Node& node) {
  MapEntry only = std::move(node.entries.front());
  Node map;
  map.kind = NodeKind::map;
  map.mark = node.mark;
  map.entries.push_back({"type", only.key_mark, scalar_node(only.key, only.key_mark)});
  for (MapEntry& entry : only.value.entries) map.entries.push_back(std::move(entry));
  node = std::move(map);
}

void expand(Node& node, const Section& section) {
  if (node.kind == NodeKind::scalar) {
    expand_word(node);
  } else if (section.type_is_key && node.kind == NodeKind::map && node.entries.size() == 1) {
    const MapEntry& only = node.entries.front();
    const bool holds_keys = only.value.kind == NodeKind::map || only.value.kind == NodeKind::null;
    if (holds_keys && is_choice(*find_field(section.key + ".type"), only.key)) expand_one_key(node);
  }
}

}  // namespace

void expand_short_forms(Node& root) {
  for (const Section& section : sections()) {
    Node* node = section.has_type ? root.find(section.key) : nullptr;
    if (node == nullptr) continue;
    Node* const terms = node->kind == NodeKind::map ? node->find("terms") : node;
    if (terms != nullptr && terms->kind == NodeKind::sequence && find_field(section.key + ".terms") != nullptr) {
      for (Node& term : terms->items) expand(term, section);
    } else {
      expand(*node, section);
    }
  }
}

}  // namespace trainer
