#include "engine/config/stages.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/freeze_fields.h"
#include "engine/config/fields/stage_fields.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/merge.h"
#include "engine/config/yaml/short_forms.h"

namespace trainer {
namespace {

constexpr std::size_t most_stages = 10'000, longest_stage_name = 100;

bool can_name_stage(const std::string& name) {
  return !name.empty() && name.size() <= longest_stage_name &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c > 0x20 && c < 0x7f && c != '/' && c != '=' && c != ',' && c != '$';
         });
}

/// The name that the stage is written with, or `otherwise`.
std::string checked_name(const Node* written, const std::string& otherwise, const Mark& stage,
                         std::set<std::string>& names, SourceSet& sources) {
  std::string name = written != nullptr ? written->text : otherwise;
  if (!can_name_stage(name))
    sources.report(written->mark, fmt::format("'{}' cannot name a stage", shortened(name)),
                   "a word without '/', '=', ',' and '$' of at most 100 letters");
  if (!names.insert(name).second)
    sources.report(stage, fmt::format("two stages are called '{}'", shortened(name)), "a name of its own");
  return name;
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

Node node_of_frozen_entries(const std::vector<FrozenEntry>& entries, const Mark& mark) {
  Node list = list_node({}, mark);
  for (const FrozenEntry& entry : entries) {
    list.items.push_back(scalar_node(entry.text, entry.mark));
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

/// Reads what only stages have, and takes it out.
class StageReader {
 public:
  explicit StageReader(SourceSet& sources) : sources_(sources) {}

  std::optional<StageNode> read(const Node& written, std::size_t position) {
    if (written.kind != NodeKind::map) {
      sources_.report(written.mark, "this is no stage", "keys that the stage changes, such as {train: {epochs: 2}}");
      return std::nullopt;
    }
    StageNode stage;
    stage.mark = written.mark;
    stage.overrides = written;
    report_misspelt(stage);
    read_name(stage, position);
    read_frozen(stage);
    read_state(stage);
    read_purge(stage, position);
    for (const SharedKey& shared : keys_of_all_stages())
      for (const MapEntry& entry : stage.overrides.entries)
        if (entry.key == shared.key)
          sources_.report(entry.key_mark, fmt::format("a stage cannot change '{}': {}", shared.key, shared.reason),
                          fmt::format("'{}' beside 'stages'", shared.key));
    expand_short_forms(stage.overrides);
    return stage;
  }

 private:
  /// What is nearest to a key that only stages have; all else is told with the keys of the file.
  void report_misspelt(StageNode& stage) {
    const std::vector<std::string>& known = keys_of_stage();
    std::erase_if(stage.overrides.entries, [&](const MapEntry& entry) {
      if (std::find(known.begin(), known.end(), entry.key) != known.end()) return false;
      const std::string_view near = nearest(entry.key, known);
      if (near.empty() || !is_of_stages_alone(near)) return false;
      sources_.report(entry.key_mark, fmt::format("unknown key '{}' in a stage", shortened(entry.key)),
                      fmt::format("one of {}", fmt::join(known, ", ")), std::string(near));
      return true;
    });
  }

  static bool is_of_stages_alone(std::string_view key) {
    return find_section(key) == nullptr &&
           (find_field(stage_fields(), key) != nullptr || find_stage_section(key) != nullptr);
  }

  /// "kep", which is nearer to `keep` than to any optimizer.
  static bool is_misspelt_carry(const std::string& text) {
    const std::vector<std::string> types = find_field("optimizer.type")->rule.choice_names();
    const std::vector<std::string> words = find_field(stage_fields(), "optimizer")->rule.choice_names();
    return std::find(types.begin(), types.end(), text) == types.end() && nearest(text, types).empty() &&
           !nearest(text, words).empty();
  }

  void read_name(StageNode& stage, std::size_t position) {
    const std::optional<Node> name = taken(stage.overrides, "name");
    stage.name =
        checked_name(name ? &*name : nullptr, fmt::format("stage-{}", position + 1), stage.mark, names_, sources_);
  }

  void read_frozen(StageNode& stage) {
    if (const std::optional<Node> freeze = taken(stage.overrides, "freeze"))
      stage.freeze = read_frozen_layers(*freeze, "freeze", sources_);
    const std::optional<Node> unfreeze = taken(stage.overrides, "unfreeze");
    if (!unfreeze) return;
    stage.unfreezes_all = unfreeze->kind == NodeKind::scalar && unfreeze->text == "all";
    if (stage.unfreezes_all) return;
    if (unfreeze->kind == NodeKind::map && unfreeze->find("to") != nullptr)
      sources_.report(unfreeze->mark, "'unfreeze' has no 'to', which says what is frozen",
                      "unfreeze: {group: body}, or freeze: {to: body} behind unfreeze: all");
    else
      stage.unfreeze = read_frozen_layers(*unfreeze, "unfreeze", sources_);
  }

  void read_state(StageNode& stage) {
    Node* const optimizer = stage.overrides.find("optimizer");
    if (optimizer == nullptr) return;
    if (optimizer->kind == NodeKind::scalar && (optimizer->text == "keep" || optimizer->text == "clear")) {
      stage.state = optimizer->text == "keep" ? StateCarry::keep : StateCarry::clear;
      erase_key(stage.overrides, "optimizer");
      return;
    }
    if (optimizer->kind == NodeKind::scalar && is_misspelt_carry(optimizer->text)) {
      const std::vector<std::string> words = find_field(stage_fields(), "optimizer")->rule.choice_names();
      sources_.report(optimizer->mark, fmt::format("'optimizer' cannot be '{}'", shortened(optimizer->text)),
                      fmt::format("an optimizer, keys of one, {}", fmt::join(words, " or ")),
                      std::string(nearest(optimizer->text, words)));
      erase_key(stage.overrides, "optimizer");
      return;
    }
    if (optimizer->kind != NodeKind::map) return;
    std::vector<std::string> known = keys_of_section("optimizer");
    known.emplace_back("clear");
    std::erase_if(optimizer->entries, [&](const MapEntry& entry) {
      const bool is_clear = entry.key != "clear" && nearest(entry.key, known) == "clear";
      if (is_clear)
        sources_.report(entry.key_mark, fmt::format("unknown key '{}' in 'optimizer'", shortened(entry.key)),
                        fmt::format("one of {}", fmt::join(known, ", ")), "clear");
      return is_clear;
    });
    const std::optional<Node> clear = taken(*optimizer, "clear");
    if (!clear) return;
    const bool names_groups = clear->kind == NodeKind::sequence && !clear->items.empty() &&
                              std::all_of(clear->items.begin(), clear->items.end(), [](const Node& group) {
                                return group.kind == NodeKind::scalar && !group.text.empty();
                              });
    if (clear->kind == NodeKind::scalar && (clear->text == "true" || clear->text == "all")) {
      stage.state = StateCarry::clear;
    } else if (clear->kind == NodeKind::scalar && (clear->text == "false" || clear->text == "none")) {
      stage.state = StateCarry::keep;
    } else if (names_groups) {
      stage.state = StateCarry::keep;
      for (const Node& group : clear->items) {
        stage.cleared_groups.push_back(group.text);
        stage.cleared_marks.push_back(group.mark);
      }
    } else {
      sources_.report(clear->mark, "'optimizer.clear' says what of the optimizer's state begins anew",
                      "true, false, or a list of layer groups, such as [head]");
    }
    if (optimizer->entries.empty()) erase_key(stage.overrides, "optimizer");
  }

  void read_purge(StageNode& stage, std::size_t position) {
    const std::optional<Node> purge = taken(stage.overrides, "purge");
    if (!purge) return;
    stage.purge_mark = purge->mark;
    if (const std::optional<Value> value = read_value(*purge, boolean(), "purge", sources_))
      stage.purge = std::get<bool>(*value);
    if (stage.purge || position > 0) return;
    sources_.report(purge->mark,
                    fmt::format("'purge: false' in stage '{}': no stage before it has anything to keep", stage.name),
                    "purge: false in a later stage");
  }

  SourceSet& sources_;
  std::set<std::string> names_;
};

/// `predict: {data: {root: photos}, output: predictions.csv}`.
class PredictionReader {
 public:
  explicit PredictionReader(SourceSet& sources) : sources_(sources) {}

  PredictConfig read(const Node& item, std::size_t position) {
    PredictConfig predict;
    predict.name = checked_name(item.find("name"), position == 0 ? "predict" : fmt::format("predict-{}", position + 1),
                                item.mark, names_, sources_);
    predict.location = sources_.location(item.mark);
    for (const MapEntry& entry : item.entries)
      if (entry.key != "name" && entry.key != "predict")
        sources_.report(entry.key_mark,
                        fmt::format("'{}' stands beside 'predict', which trains nothing", shortened(entry.key)),
                        "name and predict");
    const Node& keys = *item.find("predict");
    for (const MapEntry& entry : keys.entries) read_key(entry, predict);
    if (predict.inputs.empty() || predict.output.empty())
      sources_.report(keys.mark,
                      predict.inputs.empty() ? "'predict' needs inputs" : "'predict' needs a file for what it says",
                      "predict: {data: {root: photos}, output: predictions.csv}");
    else if (!outputs_.insert(predict.output).second)
      sources_.report(keys.mark, fmt::format("two stages write '{}'", shortened(predict.output)),
                      "an output of its own");
    return predict;
  }

 private:
  void read_key(const MapEntry& entry, PredictConfig& predict) {
    const std::vector<std::string> known{"inputs", "data", "output", "masks", "top", "lines"};
    const Node& value = entry.value;
    const bool names_root = entry.key == "data" && value.kind == NodeKind::map && value.entries.size() == 1 &&
                            value.entries.front().key == "root";
    if (entry.key == "inputs" || names_root) {
      const Rule files = text_or_texts("files and folders", "[photos, more/1.jpg]");
      const Node& list = names_root ? value.entries.front().value : value;
      if (const std::optional<Value> inputs = read_value(list, files, "predict.inputs", sources_))
        predict.inputs = std::get<std::vector<std::string>>(*inputs);
    } else if (entry.key == "data") {
      sources_.report(value.mark, "'predict.data' says where the inputs are",
                      "data: {root: photos}, or inputs: [photos]");
    } else if (entry.key == "output" || entry.key == "masks") {
      if (const std::optional<Value> path = read_value(value, text(), "predict." + entry.key, sources_))
        (entry.key == "output" ? predict.output : predict.masks) = std::get<std::string>(*path);
    } else if (entry.key == "top") {
      if (const std::optional<Value> top = read_value(value, integer(1), "predict.top", sources_))
        predict.top = std::get<std::int64_t>(*top);
    } else if (entry.key == "lines") {
      if (const std::optional<Value> lines = read_value(value, boolean(), "predict.lines", sources_))
        predict.lines = std::get<bool>(*lines);
    } else {
      sources_.report(entry.key_mark, fmt::format("unknown key '{}' in 'predict'", shortened(entry.key)),
                      fmt::format("one of {}", fmt::join(known, ", ")), std::string(nearest(entry.key, known)));
    }
  }

  SourceSet& sources_;
  std::set<std::string> names_, outputs_;
};

Node node_of_prediction(const PredictConfig& predict) {
  Node keys = map_node({}, {{"inputs", node_of(Value(predict.inputs))}, {"output", node_of(Value(predict.output))}});
  if (!predict.masks.empty()) keys.entries.push_back({"masks", {}, node_of(Value(predict.masks))});
  if (predict.top > 0) keys.entries.push_back({"top", {}, node_of(Value(predict.top))});
  if (predict.lines) keys.entries.push_back({"lines", {}, node_of(Value(predict.lines))});
  return map_node({}, {{"name", node_of(Value(predict.name))}, {"predict", std::move(keys)}});
}

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

Node null_node() {
  Node node;
  node.kind = NodeKind::null;
  return node;
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

std::vector<StageNode> take_stages(Node& root, SourceSet& sources) {
  expand_fine_tune(root, sources);
  std::optional<Node> list = taken(root, "stages");
  if (!list) return {};
  if (list->kind != NodeKind::sequence) {
    sources.report(list->mark, "'stages' is not a list", expectation_of(stage_list()));
    return {};
  }
  if (list->items.size() > most_stages) {
    sources.report(list->mark, fmt::format("'stages' has {} stages", list->items.size()),
                   fmt::format("at most {}", most_stages));
    return {};
  }
  std::vector<StageNode> stages;
  Node predictions;
  predictions.kind = NodeKind::sequence;
  predictions.mark = list->mark;
  StageReader reader(sources);
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const Node& item = list->items[i];
    if (item.kind == NodeKind::map && item.find("predict") != nullptr) {
      predictions.items.push_back(item);
      continue;
    }
    if (!predictions.items.empty())
      sources.report(item.mark, "a stage that trains stands behind one that predicts",
                     "stages with 'predict' behind all others");
    if (std::optional<StageNode> stage = reader.read(item, i)) stages.push_back(*std::move(stage));
  }
  if (!predictions.items.empty()) root.entries.push_back({"stages", list->mark, std::move(predictions)});
  return stages;
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

std::vector<PredictConfig> take_predictions(Node& root, SourceSet& sources) {
  std::vector<PredictConfig> predictions;
  const std::optional<Node> list = taken(root, "stages");
  if (!list) return predictions;
  PredictionReader reader(sources);
  for (const Node& item : list->items) predictions.push_back(reader.read(item, predictions.size()));
  return predictions;
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
