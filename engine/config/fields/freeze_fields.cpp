#include "engine/config/fields/freeze_fields.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "engine/config/fields/node_field.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

constexpr std::string_view rest_of_layers = "rest";

bool is_layer_pattern(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' || c == '*';
  });
}

/// A pattern, or one of the forms that a map is written as: "group:head", "to:head"; each may begin with '!'.
bool is_entry(std::string_view text) {
  if (text.starts_with('!')) text.remove_prefix(1);
  for (const std::string_view form : {"group:", "to:"})
    if (text.starts_with(form)) return text.size() > form.size();
  return is_layer_pattern(text);
}

void read_groups(Experiment& experiment, const Node& node, SourceSet& sources) {
  experiment.groups.clear();
  if (node.kind != NodeKind::map || node.entries.empty()) {
    sources.report(node.mark, "'model.groups' is not a map of groups", expectation_of(layer_groups()));
    return;
  }
  for (const MapEntry& entry : node.entries) {
    LayerGroup group{.name = entry.key, .layers = {}, .location = sources.location(entry.key_mark)};
    if (entry.key == "slice" || !is_layer_pattern(entry.key) || entry.key.find('*') != std::string::npos) {
      sources.report(entry.key_mark, fmt::format("'{}' cannot name a group of layers", shortened(entry.key)),
                     "letters, digits, '_', '-' and '.'; not slice");
      continue;
    }
    const Node& value = entry.value;
    if (value.kind == NodeKind::scalar && value.text == rest_of_layers) {
      const auto has_rest = [](const LayerGroup& each) { return each.layers.empty(); };
      if (std::any_of(experiment.groups.begin(), experiment.groups.end(), has_rest))
        sources.report(value.mark, "two groups are the rest", "one of them");
    } else if (value.kind == NodeKind::scalar) {
      group.layers = {value.text};
    } else if (value.kind == NodeKind::sequence && !value.items.empty()) {
      for (const Node& item : value.items) group.layers.push_back(item.text);
    } else {
      sources.report(value.mark, fmt::format("group '{}' names no layers", shortened(entry.key)),
                     "layers by path or kind, such as [layer4, fc], or rest");
      continue;
    }
    for (const std::string& pattern : group.layers)
      if (!is_layer_pattern(pattern))
        sources.report(value.mark, fmt::format("'{}' names no layer", shortened(pattern)),
                       "letters, digits, '_', '-', '.' and '*'");
    experiment.groups.push_back(std::move(group));
  }
}

Node text_of(const std::string& text) { return node_of(Value(text)); }

Node list_of(const std::vector<std::string>& texts) {
  Node list;
  list.kind = NodeKind::sequence;
  for (const std::string& text : texts) list.items.push_back(text_of(text));
  return list;
}

Node node_of_groups(const Experiment& experiment) {
  Node groups;
  if (experiment.groups.empty()) return groups;
  groups.kind = NodeKind::map;
  for (const LayerGroup& group : experiment.groups)
    groups.entries.push_back(
        {group.name, {}, group.layers.empty() ? text_of(std::string(rest_of_layers)) : list_of(group.layers)});
  return groups;
}

Node node_of_frozen(const Experiment& experiment) {
  return experiment.freeze.entries.empty() ? Node{} : list_of(experiment.freeze.entries);
}

}  // namespace

std::vector<FrozenEntry> read_frozen_layers(const Node& node, std::string_view key, SourceSet& sources) {
  std::vector<FrozenEntry> entries;
  const auto add = [&](const Node& item, std::string_view form) {
    if (item.is_broken) return;
    std::string text = item.kind == NodeKind::scalar ? std::string(form) + item.text : "";
    if (form.empty() && text == "all") text = "*";
    if (is_entry(text))
      entries.push_back({std::move(text), item.mark});
    else
      sources.report(item.mark, fmt::format("'{}': '{}' names no layers", key, shortened(item.text)),
                     expectation_of(frozen_layers()));
  };
  const auto add_all = [&](const Node& items, std::string_view form) {
    if (items.kind != NodeKind::sequence) return add(items, form);
    for (const Node& item : items.items) add(item, form);
  };
  if (node.kind != NodeKind::map) {
    add_all(node, "");
    return entries;
  }
  for (const MapEntry& entry : node.entries) {
    if (entry.key == "to" || entry.key == "group")
      add_all(entry.value, entry.key == "to" ? "to:" : "group:");
    else
      sources.report(entry.key_mark, fmt::format("unknown key '{}' in '{}'", shortened(entry.key), key),
                     expectation_of(frozen_layers()));
  }
  return entries;
}

ExperimentField groups_field() {
  return node_field<Experiment>(
      "model.groups", layer_groups(),
      "Layer groups by name, from input to output, for `freeze` and for rates by group: layers by path or kind, or "
      "`rest`, what no other group names; each parameter is in one of them",
      [](Experiment& experiment) { experiment.groups.clear(); }, read_groups, node_of_groups);
}

ExperimentField freeze_field() {
  return node_field<Experiment>(
      "freeze", frozen_layers(),
      "Layers whose parameters are not trained: by path or kind, the last entry that means a layer decides, `!` in "
      "front of one trains it; `{to: GROUP}`: all groups in front of it, and none behind; `{group: NAME}`: one; `all`",
      [](Experiment& experiment) {
        experiment.freeze.entries.clear();
        experiment.freeze.entry_locations.clear();
      },
      [](Experiment& experiment, const Node& node, SourceSet& sources) {
        for (FrozenEntry& entry : read_frozen_layers(node, "freeze", sources)) {
          experiment.freeze.entries.push_back(std::move(entry.text));
          experiment.freeze.entry_locations.push_back(sources.location(entry.mark));
        }
        experiment.freeze.location = sources.location(node.mark);
      },
      node_of_frozen);
}

}  // namespace trainer
