#include "engine/config/stage_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/freeze_fields.h"
#include "engine/config/fields/stage_fields.h"
#include "engine/config/fine_tune.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/node_building.h"
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

}  // namespace

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

std::vector<PredictConfig> take_predictions(Node& root, SourceSet& sources) {
  std::vector<PredictConfig> predictions;
  const std::optional<Node> list = taken(root, "stages");
  if (!list) return predictions;
  PredictionReader reader(sources);
  for (const Node& item : list->items) predictions.push_back(reader.read(item, predictions.size()));
  return predictions;
}

}  // namespace trainer
