#include "engine/config/loss_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/feature_rules.h"
#include "engine/config/fields/enum_choices.h"
#include "engine/config/fields/field_reader.h"
#include "engine/config/fields/loss_fields.h"
#include "engine/config/layer_reader.h"
#include "engine/config/loss_terms.h"

namespace trainer {
namespace {

LossConfig read_loss(const Node& node, SourceSet& sources) {
  LossConfig loss;
  const GivenKeys given = FieldReader(loss_term_fields(), loss, sources).read(node);
  loss.location = sources.location(node.mark);
  loss.class_weights_location = sources.location(given.mark("class_weights"));
  locate_feature_keys(loss.feature, given, "", sources);
  const std::string& type = loss_choices().name_of(loss.type);
  for (const Field<LossConfig>& field : loss_term_fields()) {
    if (!given.has(field.key) || given.broken.contains("type") || field.applies_to(type)) continue;
    sources.report(given.mark(field.key), fmt::format("'{}' does not apply to '{}'", field.key, type),
                   fmt::format("only with type {}; remove it", fmt::join(field.only_for, ", ")));
  }
  if (loss.type == LossType::feature) check_feature(loss.feature, given, "", sources);
  return loss;
}

/// Puts a value under a dotted key.
void put(Node& map, std::string_view key, Node value) {
  const std::size_t dot = key.find('.');
  const std::string first(key.substr(0, dot));
  if (dot == std::string_view::npos) {
    map.entries.push_back({first, {}, std::move(value)});
    return;
  }
  if (map.find(first) == nullptr) {
    Node section;
    section.kind = NodeKind::map;
    map.entries.push_back({first, {}, std::move(section)});
  }
  put(*map.find(first), key.substr(dot + 1), std::move(value));
}

}  // namespace

std::vector<LossConfig> read_losses(const Node& node, SourceSet& sources) {
  std::vector<LossConfig> losses;
  if (node.kind != NodeKind::sequence) {
    sources.report(node.mark, "the terms of a loss are a list", "such as [cross_entropy, {type: dice, weight: 0.5}]");
    return losses;
  }
  if (node.items.empty() || node.items.size() > most_loss_terms) {
    sources.report(node.mark, fmt::format("a loss of {} terms", node.items.size()),
                   fmt::format("1 to {} terms", most_loss_terms));
    return losses;
  }
  for (const Node& item : node.items) {
    if (item.kind == NodeKind::map) {
      losses.push_back(read_loss(item, sources));
    } else {
      sources.report(item.mark, "this is no term of a loss", "a loss, or its keys, such as {type: dice, weight: 0.5}");
    }
  }
  return losses;
}

Node node_of_losses(const std::vector<LossConfig>& losses) {
  Node list;
  if (losses.size() == 1 && losses.front().weight == 1) return list;
  list.kind = NodeKind::sequence;
  for (const LossConfig& loss : losses) {
    Node map;
    map.kind = NodeKind::map;
    for (const Field<LossConfig>& field : loss_term_fields()) {
      if (!field.applies_to(loss_choices().name_of(loss.type))) continue;
      Node value = field.const_layers ? node_of_layers(field.const_layers(loss)) : node_of(field.get(loss));
      if (value.kind != NodeKind::null) put(map, field.key, std::move(value));
    }
    list.items.push_back(std::move(map));
  }
  return list;
}

}  // namespace trainer
