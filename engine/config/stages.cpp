#include "engine/config/stages.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/freeze_fields.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/merge.h"
#include "engine/config/yaml/node_building.h"

namespace trainer {
namespace {

Node node_of_frozen_entries(const std::vector<FrozenEntry>& entries, const Mark& mark) {
  Node list = list_node({}, mark);
  for (const FrozenEntry& entry : entries) {
    list.items.push_back(scalar_node(entry.text, entry.mark));
    list.items.back().quoted = true;
  }
  return list;
}

Node node_of_prediction(const PredictConfig& predict) {
  Node keys = map_node({}, {{"inputs", node_of(Value(predict.inputs))}, {"output", node_of(Value(predict.output))}});
  if (!predict.masks.empty()) keys.entries.push_back({"masks", {}, node_of(Value(predict.masks))});
  if (predict.top > 0) keys.entries.push_back({"top", {}, node_of(Value(predict.top))});
  if (predict.lines) keys.entries.push_back({"lines", {}, node_of(Value(predict.lines))});
  return map_node({}, {{"name", node_of(Value(predict.name))}, {"predict", std::move(keys)}});
}

/// Entries that are already in the tree.
std::vector<FrozenEntry> frozen_of(const Node& root, SourceSet& sources) {
  const Node* const freeze = root.find("freeze");
  if (freeze == nullptr || freeze->kind == NodeKind::null) return {};
  return read_frozen_layers(*freeze, "freeze", sources);
}

bool are_equal(const Node& left, const Node& right) {
  if (left.kind != right.kind || left.text != right.text || left.quoted != right.quoted ||
      left.entries.size() != right.entries.size() || left.items.size() != right.items.size())
    return false;
  const auto equal_entries = [](const MapEntry& a, const MapEntry& b) {
    return a.key == b.key && are_equal(a.value, b.value);
  };
  return std::equal(left.entries.begin(), left.entries.end(), right.entries.begin(), equal_entries) &&
         std::equal(left.items.begin(), left.items.end(), right.items.begin(), are_equal);
}

/// What a map must be overridden with to become another; a null for what is to go.
Node difference(const Node& before, const Node& after, const std::string& path) {
  Node changed;
  changed.kind = NodeKind::map;
  for (const MapEntry& entry : after.entries) {
    const Node* const former = before.find(entry.key);
    if (former != nullptr && are_equal(*former, entry.value)) continue;
    const std::string key = join_key(path, entry.key);
    const bool merges = former != nullptr && former->kind == NodeKind::map && entry.value.kind == NodeKind::map &&
                        !is_replaced_whole(key) && !starts_section_anew(*former, entry.value, key);
    changed.entries.push_back({entry.key, {}, merges ? difference(*former, entry.value, key) : entry.value});
  }
  for (const MapEntry& entry : before.entries)
    if (after.find(entry.key) == nullptr) changed.entries.push_back({entry.key, {}, null_node()});
  return changed;
}

std::vector<std::string> texts_of(const Node* list) {
  std::vector<std::string> texts;
  if (list != nullptr)
    for (const Node& item : list->items) texts.push_back(item.text);
  return texts;
}

}  // namespace

std::string stage_names(const Experiment& experiment) {
  std::vector<std::string> names;
  for (const StageConfig& stage : experiment.stages) names.push_back(stage.name);
  constexpr std::size_t most_told = 20;
  const std::size_t num_more = names.size() - std::min(names.size(), most_told);
  names.resize(names.size() - num_more);
  return fmt::format("{}{}", fmt::join(names, ", "), num_more > 0 ? fmt::format(" and {} more", num_more) : "");
}

std::size_t find_stage(const Experiment& experiment, const std::string& name, std::string_view asker) {
  if (experiment.stages.empty())
    throw ConfigError(fmt::format("{} {}: the configuration has no stages", asker, shortened(name)));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < experiment.stages.size(); ++i) {
    if (experiment.stages[i].name == name) return i;
    names.push_back(experiment.stages[i].name);
  }
  const std::string_view near = nearest(name, names);
  throw ConfigError(fmt::format("{} {}: there is no such stage; expected one of {}{}", asker, shortened(name),
                                stage_names(experiment), near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

namespace {

void set_parallel(Experiment& experiment, const ParallelConfig& parallel) {
  experiment.parallel = parallel;
  std::shared_ptr<const Experiment> before;
  for (StageConfig& stage : experiment.stages) {
    auto of_rank = std::make_shared<Experiment>(*stage.experiment);
    of_rank->parallel = parallel;
    if (of_rank->kept_from) of_rank->kept_from = before;
    stage.experiment = before = std::move(of_rank);
  }
}

}  // namespace

void set_rank(Experiment& experiment, const ParallelConfig& parallel) {
  ParallelConfig of_rank = experiment.parallel;
  of_rank.rank = parallel.rank;
  of_rank.num_local = parallel.num_local;
  of_rank.local_rank = parallel.local_rank;
  set_parallel(experiment, of_rank);
}

void leave_ranks(Experiment& experiment, bool keeps_parts) {
  ParallelConfig alone;
  if (keeps_parts) {
    alone.deterministic = experiment.parallel.deterministic;
    alone.parts = experiment.parallel.parts;
  }
  set_parallel(experiment, alone);
}

const Experiment& last_trained(const Experiment& experiment) {
  return experiment.stages.empty() ? experiment : *experiment.stages.back().experiment;
}

Experiment last_trained(Experiment&& experiment) {
  if (experiment.stages.empty()) return std::move(experiment);
  return *experiment.stages.back().experiment;
}

void check_purges(const Experiment& experiment, const std::vector<StageNode>& nodes, SourceSet& sources) {
  for (std::size_t i = 1; i < experiment.stages.size(); ++i) {
    const StageConfig &former = experiment.stages[i - 1], &stage = experiment.stages[i];
    if (stage.purge) continue;
    const MemoryConfig &before = former.experiment->memory, &after = stage.experiment->memory;
    const auto refuse = [&](const std::string& reason, const std::string& expected) {
      sources.report(
          nodes[i].purge_mark,
          fmt::format("stage '{}' cannot begin with what stage '{}' has cached: {}", stage.name, former.name, reason),
          expected + ", or purge: true");
    };
    if (before.allocator == AllocatorKind::planned || after.allocator == AllocatorKind::planned)
      refuse(
          fmt::format("'memory.allocator' of '{}' is planned, whose one segment has room for the places of one stage",
                      before.allocator == AllocatorKind::planned ? former.name : stage.name),
          "memory: {allocator: caching} in both");
    else if (before.expandable_segments != after.expandable_segments)
      refuse("'memory.expandable_segments' differs, and segments of one kind serve no other",
             "one memory.expandable_segments in both");
  }
}

void apply_stage(Node& root, const StageNode& stage, SourceSet& sources) {
  if (stage.freezes_otherwise()) {
    std::vector<FrozenEntry> entries;
    if (!stage.unfreezes_all) entries = frozen_of(root, sources);
    if (stage.freeze) entries.insert(entries.end(), stage.freeze->begin(), stage.freeze->end());
    if (stage.unfreeze)
      for (const auto& [text, mark] : *stage.unfreeze)
        entries.push_back({text.starts_with('!') ? text.substr(1) : "!" + text, mark});
    erase_key(root, "freeze");
    const bool adds = stage.freeze && !stage.freeze->empty();
    const Mark& mark = adds ? stage.freeze->front().mark : stage.mark;
    if (!entries.empty()) root.entries.push_back({"freeze", mark, node_of_frozen_entries(entries, mark)});
  }
  // `steps` goes before `epochs`: a stage that counts in epochs is not to end with steps that one before it had.
  const auto value_of = [](const Node& map, std::string_view key) {
    const Node* const section = map.find("train");
    const Node* const value = section == nullptr || section->kind != NodeKind::map ? nullptr : section->find(key);
    return value == nullptr || value->kind == NodeKind::null ? nullptr : value;
  };
  if (value_of(stage.overrides, "epochs") != nullptr && value_of(stage.overrides, "steps") == nullptr &&
      value_of(root, "steps") != nullptr)
    erase_key(*root.find("train"), "steps");
  for (const MapEntry& entry : stage.overrides.entries) {
    Node* const former = root.find(entry.key);
    if (former != nullptr && starts_section_anew(*former, entry.value, entry.key)) erase_key(root, entry.key);
  }
  merge_into(root, stage.overrides);
}

Node node_of_stages(const Experiment& experiment, const std::vector<Node>& trees) {
  const std::vector<StageConfig>& stages = experiment.stages;
  Node list;
  if (stages.empty() && experiment.predictions.empty()) return list;
  list.kind = NodeKind::sequence;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageConfig& stage = stages[i];
    Node before = trees[i], after = trees[i + 1];
    const std::vector<std::string> frozen = texts_of(after.find("freeze"));
    const bool freezes = stage.freezes_otherwise || texts_of(before.find("freeze")) != frozen;
    erase_key(before, "freeze");
    erase_key(after, "freeze");
    Node node;
    node.kind = NodeKind::map;
    node.entries.push_back({"name", {}, node_of(Value(stage.name))});
    if (freezes) node.entries.push_back({"unfreeze", {}, node_of(Value(std::string("all")))});
    if (freezes && !frozen.empty()) node.entries.push_back({"freeze", {}, list_node(frozen, {})});
    if (!stage.purge) node.entries.push_back({"purge", {}, node_of(Value(false))});
    Node changed = difference(before, after, "");
    if (stage.state != StateCarry::unless_frozen_otherwise) {
      Node* optimizer = changed.find("optimizer");
      if (optimizer == nullptr) {
        changed.entries.push_back({"optimizer", {}, map_node({}, {})});
        optimizer = &changed.entries.back().value;
      }
      const bool clears = stage.state == StateCarry::clear;
      optimizer->entries.push_back(
          {"clear", {}, stage.cleared_groups.empty() ? node_of(Value(clears)) : list_node(stage.cleared_groups, {})});
    }
    for (MapEntry& entry : changed.entries) node.entries.push_back(std::move(entry));
    list.items.push_back(std::move(node));
  }
  for (const PredictConfig& predict : experiment.predictions) list.items.push_back(node_of_prediction(predict));
  return list;
}

}  // namespace trainer
