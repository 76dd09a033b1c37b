#include "engine/config/yaml/merge.h"

#include <algorithm>
#include <utility>

#include "engine/config/fields/experiment_fields.h"

namespace trainer {

bool is_replaced_whole(const std::string& path) {
  const ExperimentField* field = find_field(path);
  if (field == nullptr) return section_of(path) == "model.blocks";
  const ValueKind kind = field->rule.kind;
  return kind != ValueKind::named_values && kind != ValueKind::blocks && kind != ValueKind::columns &&
         kind != ValueKind::name_maps;
}

bool starts_section_anew(const Node& before, const Node& after, const std::string& path) {
  if (before.kind != NodeKind::map || after.kind != NodeKind::map) return false;
  const ExperimentField* const field = find_field(join_key(path, "type"));
  const Node *const former = before.find("type"), *const type = after.find("type");
  if (field == nullptr || type == nullptr) return false;
  return type->text != (former == nullptr ? std::get<std::string>(field->get(Experiment{})) : former->text);
}

void merge_into(Node& base, Node child, const std::string& path) {
  if (child.kind == NodeKind::null && child.absent && base.kind == NodeKind::map) return;
  if (base.kind != NodeKind::map || child.kind != NodeKind::map || is_replaced_whole(path)) {
    base = std::move(child);
    return;
  }
  base.mark = child.mark;
  for (MapEntry& entry : child.entries) {
    const auto same = std::find_if(base.entries.begin(), base.entries.end(),
                                   [&](const MapEntry& each) { return each.key == entry.key; });
    if (same == base.entries.end()) {
      base.entries.push_back(std::move(entry));
    } else {
      same->key_mark = entry.key_mark;
      merge_into(same->value, std::move(entry.value), join_key(path, entry.key));
    }
  }
}

}  // namespace trainer
