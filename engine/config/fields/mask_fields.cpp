#include "engine/config/fields/mask_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "engine/config/fields/field_reader.h"
#include "engine/config/fields/node_field.h"

namespace trainer {
namespace {

constexpr std::string_view other_values = "others", left_out = "ignore";
constexpr std::int64_t most_classes = 255;

std::optional<std::int64_t> value_of_mask(std::string_view key) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), value);
  const bool is_one = error == std::errc() && end == key.data() + key.size() && value >= 0 && value <= 255;
  return is_one ? std::optional(value) : std::nullopt;
}

void read_mask_classes(Experiment& experiment, const Node& node, SourceSet& sources) {
  MaskClasses& classes = experiment.data.mask_classes;
  classes = {};
  if (node.kind != NodeKind::map) {
    sources.report(node.mark, "'data.mask_classes' is not a map", expectation_of(classes_of_masks()));
    return;
  }
  for (const MapEntry& entry : node.entries) {
    const std::string key = fmt::format("data.mask_classes.{}", entry.key);
    if (entry.key == other_values) {
      if (entry.value.text == left_out)
        classes.leaves_others_out = true;
      else
        sources.report(entry.value.mark, fmt::format("'{}' is not what other values can stand for", key),
                       fmt::format("{}, or no such key: they are then mistakes", left_out));
      continue;
    }
    const std::optional<std::int64_t> value = value_of_mask(entry.key);
    if (!value) {
      sources.report(entry.key_mark, fmt::format("'{}' is no value of a mask", entry.key),
                     fmt::format("0 to 255, or {}", other_values));
      continue;
    }
    Rule of_class = integer_or(std::string(left_out), 0);
    of_class.maximum = static_cast<double>(most_classes - 1);
    const auto read = read_value(entry.value, of_class, key, sources);
    if (!read) continue;
    const auto* number = std::get_if<std::int64_t>(&*read);
    classes.values.push_back({*value, number == nullptr ? -1 : *number});
  }
  const auto is_class = [](const MaskClasses::OfValue& each) { return each.of_class >= 0; };
  if (!sources.has_mistakes() && !std::any_of(classes.values.begin(), classes.values.end(), is_class))
    sources.report(node.mark, "'data.mask_classes' names no class", expectation_of(classes_of_masks()));
}

Node scalar_of(std::string text) {
  Node node;
  node.kind = NodeKind::scalar;
  node.text = std::move(text);
  return node;
}

Node node_of_mask_classes(const Experiment& experiment) {
  const MaskClasses& classes = experiment.data.mask_classes;
  Node map;
  if (classes.values.empty()) return map;
  map.kind = NodeKind::map;
  for (const auto& [value, of_class] : classes.values)
    map.entries.push_back(
        {fmt::format("{}", value), {}, scalar_of(of_class < 0 ? std::string(left_out) : fmt::format("{}", of_class))});
  if (classes.leaves_others_out)
    map.entries.push_back({std::string(other_values), {}, scalar_of(std::string(left_out))});
  return map;
}

}  // namespace

ExperimentField mask_classes_field() {
  ExperimentField result = node_field<Experiment>(
      "data.mask_classes", classes_of_masks(),
      "The class of each value in masks, or `ignore` for pixels that are left out; `others: ignore` leaves out all "
      "that "
      "are not named, which else are mistakes",
      [](Experiment& experiment) { experiment.data.mask_classes = {}; }, read_mask_classes, node_of_mask_classes);
  result.default_text = "each value is its class, and that of `loss.ignore_index` is left out";
  return result;
}

}  // namespace trainer
