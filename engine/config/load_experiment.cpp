#include "engine/config/load_experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/config/experiment_reader.h"
#include "engine/config/experiment_rules.h"
#include "engine/config/feature_rules.h"
#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/name_map_fields.h"
#include "engine/config/layer_reader.h"
#include "engine/config/loss_reader.h"
#include "engine/config/stages.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/compose.h"
#include "engine/config/yaml/node_text.h"
#include "engine/config/yaml/source_set.h"
#include "engine/config/yaml/yaml_tree.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

/// Whether a key has a meaning for the type its section has in this experiment.
bool applies(const ExperimentField& field, const Experiment& experiment) {
  if (field.only_for.empty()) return true;
  return field.applies_to(std::get<std::string>(find_field(field.deciding_key())->get(experiment)));
}

Node& find_or_add(Node& map, std::string_view key) {
  map.kind = NodeKind::map;
  if (Node* present = map.find(key)) return *present;
  map.entries.push_back({std::string(key), {}, {}});
  return map.entries.back().value;
}

using IsWantedKey = std::function<bool(std::string_view key)>;

/// Of all keys but `stages`, or of those that are wanted.
Node resolved_keys(const Experiment& experiment, const IsWantedKey& is_wanted = {}) {
  Node root;
  const bool has_terms = node_of_losses(experiment.losses).kind != NodeKind::null;
  for (const ExperimentField& field : experiment_fields()) {
    const bool is_of_one_loss = section_of(field.key) == "loss" && !field.node;
    if (is_wanted && !is_wanted(field.key)) continue;
    if ((has_terms && is_of_one_loss) || !applies(field, experiment)) continue;
    Node value = field.layers ? node_of_layers(field.const_layers(experiment))
                 : field.node ? field.node(experiment)
                              : node_of(field.get(experiment));
    if (value.kind == NodeKind::null) continue;
    Node* node = &root;
    // Terms are shown as what they are short for.
    std::string_view rest = last_of(field.key) == "terms" ? section_of(field.key) : std::string_view(field.key);
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      node = &find_or_add(*node, rest.substr(0, dot));
      rest.remove_prefix(dot + 1);
    }
    find_or_add(*node, rest) = std::move(value);
  }
  return root;
}

Node resolved_tree(const Experiment& experiment) {
  Node root = resolved_keys(experiment);
  if (experiment.stages.empty() && experiment.predictions.empty()) return root;
  std::vector<Node> trees = {root};
  for (const StageConfig& stage : experiment.stages) trees.push_back(resolved_keys(*stage.experiment));
  find_or_add(root, "stages") = node_of_stages(experiment, trees);
  return root;
}

}  // namespace

namespace {

Experiment experiment_of(ComposedConfig composed, const std::string& file_name, SourceSet& sources) {
  Experiment experiment;
  experiment.predictions = take_predictions(composed.root, sources);
  const Node& root = composed.root;
  experiment.computed_from = std::move(composed.computed_from);
  experiment.model_parameters = std::move(composed.model_parameters);
  experiment.config_path = file_name;
  const ExperimentKeys given = read_experiment(root, experiment, sources);
  experiment.data.location = sources.location(given.mark("data"));
  experiment.device.threads_location = sources.location(given.mark("device.threads"));
  experiment.memory.offload_location = sources.location(given.mark("memory.offload"));
  experiment.parallel.cut_location = sources.location(given.mark("parallel.cut"));
  experiment.train.checkpointing.location = sources.location(given.mark("train.checkpointing"));
  experiment.loss_location = sources.location(given.mark("loss"));
  if (!given.has("loss.terms")) {
    LossConfig& loss = experiment.losses.front();
    loss.location = experiment.loss_location;
    loss.class_weights_location = sources.location(given.mark("loss.class_weights"));
    locate_feature_keys(loss.feature, given, "loss.", sources);
  }
  experiment.data.memory_location = sources.location(given.mark("data.memory"));
  experiment.data.target_location = sources.location(given.mark("data.target"));
  experiment.data.include_location = sources.location(given.mark("data.include"));
  experiment.data.exclude_location = sources.location(given.mark("data.exclude"));
  experiment.data.drop_last_location = sources.location(given.mark("data.drop_last"));
  for (const LossConfig& loss : experiment.losses) {
    if (loss.type == LossType::bce_with_logits) experiment.data.targets_are_probabilities = true;
    if (takes_classes(loss.type)) experiment.data.ignored_target = loss.ignore_index;
  }
  experiment.checkpoint.best_location = sources.location(given.mark("checkpoint.best"));
  experiment.train.confusion_matrix_location = sources.location(given.mark("train.confusion_matrix"));
  experiment.schedule.warmup_location = sources.location(given.mark("schedule.warmup_steps"));
  experiment.train.early_stopping.location = sources.location(given.mark("train.early_stopping.patience"));
  experiment.weights.rename_location = sources.location(given.mark("weights.rename"));
  experiment.weights.transpose_location = sources.location(given.mark("weights.transpose"));
  experiment.weights.ignore_location = sources.location(given.mark("weights.ignore"));
  experiment.weights.fresh_location = sources.location(given.mark("weights.new"));
  check_experiment(experiment, given, sources);
  return experiment;
}

/// Reports what a stage clears of no layer group.
void check_cleared_groups(const StageNode& node, const Experiment& stage, SourceSet& sources) {
  std::vector<std::string> names;
  for (const LayerGroup& group : stage.groups) names.push_back(group.name);
  for (std::size_t i = 0; i < node.cleared_groups.size(); ++i) {
    const std::string& group = node.cleared_groups[i];
    if (std::find(names.begin(), names.end(), group) != names.end()) continue;
    sources.report(node.cleared_marks[i],
                   fmt::format("'optimizer.clear': the model has no layer group '{}'", shortened(group)),
                   names.empty() ? "model.groups, such as {body: rest, head: [fc]}, or true"
                                 : fmt::format("one of {}", fmt::join(names, ", ")),
                   std::string(nearest(group, names)));
  }
}

/// Reports a stage of no steps: behind another one it would leave no checkpoint of its own.
void check_steps(const Experiment& stage, const Node& tree, const StageNode& node, SourceSet& sources) {
  const bool counts_steps = stage.train.steps.has_value();
  if (counts_steps ? *stage.train.steps > 0 : stage.train.epochs > 0) return;
  const std::string_view key = counts_steps ? "steps" : "epochs";
  const Node* const train = tree.find("train");
  const Node* const value = train == nullptr || train->kind != NodeKind::map ? nullptr : train->find(key);
  sources.report(value == nullptr ? node.mark : value->mark,
                 fmt::format("stage '{}' trains nothing: its 'train.{}' is 0", node.name, key),
                 fmt::format("at least 1; what a stage leaves out is as in the stage before it. '{}' evaluates weights",
                             trainer_command("eval")));
}

/// Reads each stage over those before it.
void read_stages(const MergedConfig& merged, Experiment& experiment, SourceSet& sources) {
  Node root = merged.root;
  for (std::size_t i = 0; i < merged.stages.size(); ++i) {
    const StageNode& node = merged.stages[i];
    apply_stage(root, node, sources);
    auto stage = std::make_shared<Experiment>(
        experiment_of(compose_tree(sources, merged, root), experiment.config_path, sources));
    stage->predictions.clear();  // they are of the whole
    check_cleared_groups(node, *stage, sources);
    if (!sources.has_mistakes()) check_steps(*stage, root, node, sources);
    stage->stage = node.name;
    stage->override_prefix = fmt::format("stages.{}.", i);
    ExperimentSource source = *experiment.source;
    source.stage = i;
    stage->source = std::make_shared<ExperimentSource>(std::move(source));
    experiment.stages.push_back({.name = node.name,
                                 .experiment = std::move(stage),
                                 .state = node.state,
                                 .cleared_groups = node.cleared_groups,
                                 .freezes_otherwise = node.freezes_otherwise(),
                                 .purge = node.purge,
                                 .location = sources.location(node.mark)});
  }
  check_purges(experiment, merged.stages, sources);
}

}  // namespace

Experiment parse_experiment(std::string_view text, const std::string& file_name,
                            const std::vector<std::string>& overrides) {
  SourceSet sources;
  const MergedConfig merged = merge_config(sources, text, file_name, overrides);
  Experiment experiment = experiment_of(compose_tree(sources, merged, merged.root), file_name, sources);
  experiment.source = std::make_shared<ExperimentSource>(
      ExperimentSource{std::make_shared<const std::string>(text), file_name, overrides, std::nullopt});
  sources.throw_mistakes();
  read_stages(merged, experiment, sources);
  sources.throw_mistakes();
  std::shared_ptr<const Experiment> before;
  for (StageConfig& stage : experiment.stages) {
    auto resolved = std::make_shared<Experiment>(*stage.experiment);
    resolved->resolved_json = resolved_json(*resolved);
    if (!stage.purge) resolved->kept_from = before;
    stage.experiment = before = std::move(resolved);
  }
  experiment.resolved_json = resolved_json(experiment);
  return experiment;
}

Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides) {
  return parse_experiment(read_config_file(path), path, overrides);
}

Experiment read_again(const Experiment& experiment, const std::string& override_text) {
  require_internal(experiment.source != nullptr, "an experiment that is read again was read");
  const ExperimentSource& source = *experiment.source;
  std::vector<std::string> overrides = source.overrides;
  overrides.push_back(experiment.override_prefix + override_text);
  Experiment again = parse_experiment(*source.text, source.file_name, overrides);
  set_rank(again, experiment.parallel);
  if (!source.stage) return again;
  require_internal(*source.stage < again.stages.size(), "a stage that is read again is still there");
  Experiment stage = *again.stages[*source.stage].experiment;
  stage.memory.kept = experiment.memory.kept;
  return stage;
}

std::vector<NameMap> maps_of_resolved(const std::string& json) {
  SourceSet sources;
  const std::optional<Node> root = parse_yaml(sources, sources.add_argument(json), json);
  const Node* const model = root ? root->find("model") : nullptr;
  const Node* const maps = model != nullptr && model->kind == NodeKind::map ? model->find("maps") : nullptr;
  if (maps == nullptr) return {};
  Experiment experiment;
  maps_field().read(experiment, *maps, sources);
  for (NameMap& map : experiment.maps) map.location = {};
  return std::move(experiment.maps);
}

std::string resolved_yaml(const Experiment& experiment) { return yaml_text(resolved_tree(experiment)); }

std::string resolved_yaml(const Experiment& experiment, const IsWantedKey& is_wanted) {
  return yaml_text(resolved_keys(experiment, is_wanted));
}

std::string resolved_json(const Experiment& experiment, int indent) {
  return json_text(resolved_tree(experiment), indent);
}

}  // namespace trainer
