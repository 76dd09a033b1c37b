#include "engine/config/fields/integer_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <string>
#include <vector>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/layer_fields.h"
#include "engine/config/text/suggestion.h"
#include "engine/errors.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

constexpr std::string_view layers_key = "model.layers.";
constexpr std::string_view parameters_key = "model.with.";

[[noreturn]] void refuse(std::string_view key, const std::string& what) {
  throw ConfigError(fmt::format("'{}' {}; a search needs a key of integers, such as train.batch_size", key, what));
}

[[noreturn]] void refuse_unknown(std::string_view key, const std::string& nearest) {
  throw ConfigError(fmt::format("unknown key '{}'{}", key,
                                nearest.empty() ? fmt::format("; '{}' lists them", trainer_command("config explain"))
                                                : fmt::format("; did you mean '{}'?", nearest)));
}

IntegerRange range_of(std::string_view key, const Rule& rule) {
  const bool takes_integers = rule.kind == ValueKind::integer || rule.kind == ValueKind::pair;
  if (!takes_integers) refuse(key, fmt::format("takes {}", expectation_of(rule)));
  constexpr auto most = static_cast<double>(std::numeric_limits<std::int32_t>::max());
  return {static_cast<std::int64_t>(rule.minimum), static_cast<std::int64_t>(std::min(rule.maximum, most))};
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

/// "model.layers.1.linear.out": the key of a kind of layer.
IntegerRange range_in_layers(std::string_view key) {
  const std::string_view parent = section_of(key);
  const std::string kind_name(last_of(parent)), name(last_of(key));
  const LayerKind* const kind = find_layer_kind(kind_name);
  if (kind == nullptr) {
    if (kind_name == "layers") refuse(key, "is a layer");
    const auto has_key = [&](const LayerKind& each) { return find_field(each.fields, name) != nullptr; };
    const auto with_key = std::find_if(layer_kinds().begin(), layer_kinds().end(), has_key);
    if (last_of(section_of(parent)) == "layers" && find_layer_kind(name) == nullptr)
      refuse_unknown(key, with_key == layer_kinds().end() ? "" : fmt::format("{}.{}.{}", parent, with_key->name, name));
    if (last_of(section_of(parent)) == "layers") refuse_unknown(key, fmt::format("{}.{}.out", parent, name));
    const std::vector<std::string> kinds = layer_kind_names();
    const std::string near(nearest(kind_name, kinds));
    refuse_unknown(key, near.empty() ? "" : fmt::format("{}.{}.{}", section_of(parent), near, name));
  }
  if (const Field<LayerSpec>* const field = find_field(kind->fields, name)) {
    if (field->layers) refuse(key, "is a list of layers");
    return range_of(key, field->rule);
  }
  if (name == "name" || name == "from" || name == "share") refuse(key, "takes text");
  const std::string near = suggest_key(name, kind->fields, kind->keys());
  refuse_unknown(key, near.empty() ? "" : fmt::format("{}.{}", parent, near));
}

/// The layer at a position, or of a name; null where there is none.
const LayerSpec* find_layer(const std::vector<LayerSpec>& layers, std::string_view place) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i].name == place || fmt::format("{}", i) == place) return &layers[i];
  return nullptr;
}

/// The field that `path` leads to from a list of layers, as overrides go (engine/config/yaml/override.h); null where
/// none.
const Field<LayerSpec>* find_by_path(const std::vector<LayerSpec>& layers, std::string_view path) {
  const auto next = [&path] {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string_view part = path.substr(0, dot);
    path.remove_prefix(std::min(path.size(), dot + 1));
    return part;
  };
  const LayerSpec* layer = find_layer(layers, next());
  const Field<LayerSpec>* field = nullptr;
  while (layer != nullptr && !path.empty()) {
    const LayerKind& kind = *find_layer_kind(layer->kind);
    std::string_view part = next();
    if (part == kind.name)
      part = next();
    else if (const auto* inner = std::get_if<SequentialSpec>(&layer->spec)) {
      if (const LayerSpec* found = find_layer(inner->layers, part)) {
        layer = found;
        continue;
      }
    }
    field = find_field(kind.fields, part);
    if (field == nullptr || !field->const_layers || path.empty()) break;
    layer = find_layer(field->const_layers(*layer), next());
    field = nullptr;
  }
  return path.empty() ? field : nullptr;
}

}  // namespace

IntegerRange integer_range_of(std::string_view key, const std::vector<LayerSpec>& layers) {
  if (key.starts_with(parameters_key) && key.substr(parameters_key.size()).find('.') == std::string_view::npos)
    return range_of(key, integer(0));
  if (key.starts_with(layers_key)) {
    const Field<LayerSpec>* const field = find_by_path(layers, key.substr(layers_key.size()));
    if (field == nullptr) return range_in_layers(key);
    if (field->layers) refuse(key, "is a list of layers");
    return range_of(key, field->rule);
  }
  if (const ExperimentField* const field = find_field(key)) {
    if (field->layers) refuse(key, "is a list of layers");
    return range_of(key, field->rule);
  }
  // An element of a list: data.shape.0.
  const ExperimentField* const list = is_number(last_of(key)) ? find_field(section_of(key)) : nullptr;
  if (list != nullptr && list->rule.kind == ValueKind::integers) {
    Rule element = list->rule;
    element.kind = ValueKind::integer;
    return range_of(key, element);
  }
  if (find_section(key) != nullptr) refuse(key, "is a section");
  std::vector<std::string> keys;
  for (const ExperimentField& field : experiment_fields()) keys.push_back(field.key);
  std::string near = suggest_key(std::string(key), experiment_fields(), keys);
  for (const ExperimentField& field : experiment_fields())  // the section left out, or another one
    if (near.empty() && last_of(field.key) == last_of(key)) near = field.key;
  if (near.empty()) near = suggest_key(std::string(last_of(key)), experiment_fields(), keys);
  refuse_unknown(key, near);
}

}  // namespace trainer
