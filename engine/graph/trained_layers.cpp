#include "engine/graph/trained_layers.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/diagnostic.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/utf8_text.h"
#include "engine/graph/layer_pattern.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

constexpr std::string_view of_group = "group:", up_to_group = "to:";

std::vector<std::string> names_of(const std::vector<LayerGroup>& groups) {
  std::vector<std::string> names;
  names.reserve(groups.size());
  for (const LayerGroup& group : groups) names.push_back(group.name);
  return names;
}

ConfigError mistake(const SourceLocation& location, const std::string& message, const std::string& expectation,
                    std::string_view suggestion = "") {
  if (location.file.empty()) return ConfigError(message + "; expected " + expectation);
  return located_error(location, message, expectation, std::string(suggestion));
}

/// batchnorm2d, layernorm and the like.
bool is_norm(std::string_view kind) { return kind.find("norm") != std::string_view::npos; }

bool means_layer(const LayerGroup& group, std::string_view path, std::string_view kind) {
  return std::any_of(group.layers.begin(), group.layers.end(),
                     [&](const std::string& pattern) { return matches_layer(pattern, path, kind); });
}

}  // namespace

TrainedLayers::TrainedLayers(const Experiment& experiment) : experiment_(experiment) {
  const FreezeConfig& freeze = experiment.freeze;
  for (std::size_t i = 0; i < freeze.entries.size(); ++i)
    entries_.push_back(
        read(freeze.entries[i], i < freeze.entry_locations.size() ? freeze.entry_locations[i] : freeze.location));
}

std::int32_t TrainedLayers::group_named(std::string_view name, const SourceLocation& location) const {
  const std::vector<LayerGroup>& groups = experiment_.groups;
  const auto num_groups = static_cast<std::int64_t>(groups.size());
  if (groups.empty())
    throw mistake(location, fmt::format("this names the layer group '{}', and the model has none", shortened(name)),
                  "model.groups, such as {body: rest, head: [fc]}, or layers by path or kind");
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (groups[i].name == name) return static_cast<std::int32_t>(i);
  const auto number = read_integer(name);
  if (const auto* const position = std::get_if<std::int64_t>(&number);
      position != nullptr && *position >= -num_groups && *position < num_groups)
    return static_cast<std::int32_t>(*position < 0 ? *position + num_groups : *position);
  const std::vector<std::string> names = names_of(groups);
  throw mistake(location, fmt::format("the model has no layer group '{}'", shortened(name)),
                fmt::format("one of {}", fmt::join(names, ", ")), nearest(name, names));
}

TrainedLayers::Entry TrainedLayers::read(std::string_view text, const SourceLocation& location) const {
  Entry entry;
  entry.location = location;
  if (text.starts_with('!')) {
    entry.freezes = false;
    text.remove_prefix(1);
  }
  const bool is_up_to = text.starts_with(up_to_group);
  if (!is_up_to && !text.starts_with(of_group)) {
    entry.pattern = text;
    return entry;
  }
  const auto group =
      static_cast<std::size_t>(group_named(text.substr((is_up_to ? up_to_group : of_group).size()), location));
  entry.groups.assign(experiment_.groups.size(), -1);
  for (std::size_t i = 0; i < entry.groups.size(); ++i) {
    if (is_up_to && i >= group) entry.groups[i] = 0;
    if (is_up_to && i < group && entry.freezes) entry.groups[i] = 1;
    if (!is_up_to && i == group) entry.groups[i] = entry.freezes ? 1 : 0;
  }
  return entry;
}

bool TrainedLayers::means(const Entry& entry, std::string_view path, std::string_view kind) const {
  if (!entry.pattern.empty()) return matches_layer(entry.pattern, path, kind);
  const std::int32_t group = group_of(path, kind);
  return group >= 0 && entry.groups[static_cast<std::size_t>(group)] >= 0;
}

bool TrainedLayers::is_frozen(std::string_view path, std::string_view kind) const {
  for (std::size_t i = entries_.size(); i-- > 0;) {
    const Entry& entry = entries_[i];
    if (!means(entry, path, kind)) continue;
    if (!entry.pattern.empty()) return entry.freezes;
    return entry.groups[static_cast<std::size_t>(group_of(path, kind))] == 1;
  }
  return false;
}

bool TrainedLayers::trains(std::string_view path, std::string_view kind) const {
  if (entries_.empty()) return true;
  return (is_norm(kind) && experiment_.freeze.norms == FrozenNorms::train) || !is_frozen(path, kind);
}

bool TrainedLayers::keeps_statistics(std::string_view path, std::string_view kind) const {
  return !entries_.empty() && experiment_.freeze.norms == FrozenNorms::whole && is_frozen(path, kind);
}

std::int32_t TrainedLayers::group_of(std::string_view path, std::string_view kind) const {
  const std::vector<LayerGroup>& groups = experiment_.groups;
  if (groups.empty()) return 0;
  std::int32_t rest = -1;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].layers.empty())
      rest = static_cast<std::int32_t>(i);
    else if (means_layer(groups[i], path, kind))
      return static_cast<std::int32_t>(i);
  }
  return rest;
}

void TrainedLayers::check(const Graph& graph) const {
  if (entries_.empty() && experiment_.groups.empty()) return;
  std::vector<const Layer*> owners;
  std::vector<std::string> words;
  std::vector<char> owns(graph.layers.size(), 0);
  for (const Parameter& parameter : graph.parameters)
    if (!parameter.is_frozen()) owns[static_cast<std::size_t>(parameter.layer)] = 1;
  for (std::size_t i = 0; i < owns.size(); ++i) {
    if (owns[i] == 0) continue;
    owners.push_back(&graph.layers[i]);
    words.push_back(graph.layers[i].path);
    words.push_back(graph.layers[i].kind);
  }
  const std::string expectation =
      fmt::format("a path or kind of a layer with parameters of its own, as `{}` lists them, with `*` for anything",
                  trainer_command("summary"));
  const auto means_none = [&](const std::string& pattern) {
    return std::none_of(owners.begin(), owners.end(),
                        [&](const Layer* layer) { return matches_layer(pattern, layer->path, layer->kind); });
  };
  for (const Entry& entry : entries_)
    if (!entry.pattern.empty() && means_none(entry.pattern))
      throw mistake(entry.location, fmt::format("no layer with parameters matches '{}'", shortened(entry.pattern)),
                    expectation, nearest(entry.pattern, words));
  for (const LayerGroup& group : experiment_.groups)
    for (const std::string& pattern : group.layers)
      if (means_none(pattern))
        throw mistake(group.location,
                      fmt::format("group '{}': no layer with parameters matches '{}'", group.name, shortened(pattern)),
                      expectation, nearest(pattern, words));
  for (const Layer* layer : owners) {
    std::vector<std::string> groups;
    for (const LayerGroup& group : experiment_.groups)
      if (means_layer(group, layer->path, layer->kind)) groups.push_back(group.name);
    if (groups.size() > 1)
      throw mistake(experiment_.groups.front().location,
                    fmt::format("layer '{}' is in the groups {}", layer->path, fmt::join(groups, " and ")),
                    "layers of one group each; `rest` is what no other group names");
    if (groups.empty() && group_of(layer->path, layer->kind) < 0)
      throw mistake(experiment_.groups.front().location,
                    fmt::format("layer '{}' is in none of model.groups", layer->path),
                    "a group that names it, or one that is `rest`, what no other names");
  }
}

std::vector<double> numbers_of_groups(const GroupNumbers& numbers, const std::vector<LayerGroup>& groups,
                                      std::string_view key) {
  const std::size_t num_groups = std::max<std::size_t>(groups.size(), 1);
  if (numbers.is_same_for_all()) return std::vector<double>(num_groups, numbers.number);
  if (groups.size() < 2)
    throw mistake(numbers.location,
                  fmt::format("'{}' has a number for each layer group, and the model has {}", key,
                              groups.empty() ? "none" : "one"),
                  "model.groups, such as {body: rest, head: [fc]}, or one number");
  std::vector<double> all(num_groups);
  if (numbers.slice.size() == 1) {
    std::fill(all.begin(), all.end(), numbers.slice[0] / 10);
    all.back() = numbers.slice[0];
    return all;
  }
  if (numbers.slice.size() == 2) {
    const double first = numbers.slice[0], last = numbers.slice[1];
    const double factor = std::pow(last / first, 1.0 / static_cast<double>(num_groups - 1));
    for (std::size_t i = 0; i < num_groups; ++i) all[i] = first * std::pow(factor, static_cast<double>(i));
    all.back() = last;
    return all;
  }
  const std::vector<std::string> names = names_of(groups);
  std::vector<char> is_given(num_groups, 0);
  for (const auto& [name, number] : numbers.groups) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw mistake(numbers.location, fmt::format("'{}': the model has no layer group '{}'", key, shortened(name)),
                    fmt::format("one of {}", fmt::join(names, ", ")), nearest(name, names));
    all[static_cast<std::size_t>(found - names.begin())] = number;
    is_given[static_cast<std::size_t>(found - names.begin())] = 1;
  }
  for (std::size_t i = 0; i < num_groups; ++i)
    if (is_given[i] == 0)
      throw mistake(numbers.location, fmt::format("'{}' has no number for the layer group '{}'", key, names[i]),
                    fmt::format("one for each of {}", fmt::join(names, ", ")));
  return all;
}

}  // namespace trainer
