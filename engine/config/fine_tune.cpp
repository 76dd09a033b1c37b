#include "engine/config/fine_tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/fields/value.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/node_building.h"

namespace trainer {
namespace {

std::optional<double> number_at(const Node& map, std::string_view key, double otherwise, double minimum,
                                SourceSet& sources) {
  const Node* const node = map.find(key);
  if (node == nullptr || (node->kind == NodeKind::null && !node->absent)) return otherwise;
  const std::optional<Value> value = read_value(*node, number_at_least(minimum), key, sources);
  if (!value) return std::nullopt;
  return std::get<double>(*value);
}

/// fastai's fine_tune(epochs, base_lr, freeze_epochs): one cycle of the last group up to 99 % of it, then of all groups
/// at half the rate, from a hundredth of it up, with 30 % of rise from a fifth.
Node fine_tune_stages(const Node& recipe, SourceSet& sources) {
  const std::vector<std::string> keys{"epochs", "lr", "freeze_epochs"};
  for (const MapEntry& entry : recipe.entries)
    if (std::find(keys.begin(), keys.end(), entry.key) == keys.end())
      sources.report(entry.key_mark, fmt::format("unknown key '{}' in 'stages.fine_tune'", shortened(entry.key)),
                     fmt::format("one of {}", fmt::join(keys, ", ")), std::string(nearest(entry.key, keys)));
  const std::optional<double> lr = number_at(recipe, "lr", 2e-3, 0, sources);
  const auto number_of = [&](std::string_view key) {
    const Node* const node = recipe.find(key);
    return node == nullptr || node->kind == NodeKind::null ? nullptr : node;
  };
  const Node* const epochs = number_of("epochs");
  if (epochs == nullptr) sources.report(recipe.mark, "'stages.fine_tune' needs 'epochs'", "fine_tune: {epochs: 3}");
  Node list;
  list.kind = NodeKind::sequence;
  list.mark = recipe.mark;
  if (epochs == nullptr || !lr) return list;
  const Mark& mark = recipe.mark;
  const auto text = [&](const std::string& value) { return scalar_node(value, mark); };
  const auto number = [&](double value) { return node_of(Value(value)); };
  const Node* const freeze_epochs = number_of("freeze_epochs");
  const auto cycle = [&](const std::string& rise, const std::string& divisor) {
    return map_node(mark, {{"type", text("one_cycle")},
                           {"warmup_fraction", text(rise)},
                           {"start_divisor", text(divisor)},
                           {"final_divisor", text("100000")}});
  };
  list.items.push_back(
      map_node(mark, {{"name", text("frozen")},
                      {"freeze", map_node(mark, {{"to", text("-1")}})},
                      {"freeze_norms", text("off")},
                      {"optimizer", map_node(mark, {{"lr", map_node(mark, {{"slice", number(*lr)}})}})},
                      {"schedule", cycle("0.99", "25")},
                      {"train", map_node(mark, {{"epochs", freeze_epochs == nullptr ? text("1") : *freeze_epochs}})}}));
  Node slice;
  slice.kind = NodeKind::sequence;
  slice.mark = mark;
  slice.items = {number(*lr / 2 / 100), number(*lr / 2)};
  list.items.push_back(
      map_node(mark, {{"name", text("fine-tune")},
                      {"unfreeze", text("all")},
                      {"optimizer", map_node(mark, {{"lr", map_node(mark, {{"slice", std::move(slice)}})}})},
                      {"schedule", cycle("0.3", "5")},
                      {"train", map_node(mark, {{"epochs", *epochs}})}}));
  return list;
}

/// The one value of {fine_tune: …}; null where it is another node.
const Node* recipe_of(const Node& node) {
  const bool is_recipe = node.kind == NodeKind::map && node.entries.size() == 1 && node.entries[0].key == "fine_tune";
  return is_recipe ? &node.entries[0].value : nullptr;
}

}  // namespace

void expand_fine_tune(Node& root, SourceSet& sources) {
  Node* const stages = root.find("stages");
  if (stages == nullptr) return;
  const auto stages_of = [&](const Node& recipe) {
    if (recipe.kind == NodeKind::map) return fine_tune_stages(recipe, sources);
    sources.report(recipe.mark, "'stages.fine_tune' needs 'epochs'", "fine_tune: {epochs: 3}");
    return list_node({}, recipe.mark);
  };
  if (const Node* const recipe = recipe_of(*stages)) {
    Node list = stages_of(*recipe);
    *stages = std::move(list);
    return;
  }
  if (stages->kind != NodeKind::sequence) return;
  std::vector<Node> items;
  for (Node& item : stages->items) {
    const Node* const recipe = recipe_of(item);
    if (recipe == nullptr) {
      items.push_back(std::move(item));
      continue;
    }
    Node list = stages_of(*recipe);
    for (Node& stage : list.items) items.push_back(std::move(stage));
  }
  stages->items = std::move(items);
}

}  // namespace trainer
