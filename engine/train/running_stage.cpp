#include "engine/train/running_stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/diagnostic.h"
#include "engine/config/load_experiment.h"
#include "engine/memory/cached_segments.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/fitting_cut.h"
#include "engine/program/handed_parameters.h"
#include "engine/program/run_checks.h"
#include "engine/train/agreed_cut.h"
#include "engine/train/data_checks.h"

namespace trainer {

std::unique_ptr<RunningStage> prepare_stage(RunStages& stages, std::size_t index, const Checkpoint* checkpoint,
                                            const std::map<std::string, std::int64_t>& updates_before, Device& device,
                                            std::shared_ptr<const CachedSegments> kept, Communicator* ranks) {
  auto stage = std::make_unique<RunningStage>();
  stage->config = stages.config(index);
  const std::int64_t held = kept ? kept->num_bytes() : 0;
  stage->asked = stages.experiment(index);
  stage->asked.memory.kept = std::move(kept);
  stage->data = stages.data_of(index);
  check_data(stage->asked, stage->data);
  stage->surroundings = surroundings_of(stage->data, device);
  RunExperiment chosen = checkpoint != nullptr
                             ? resumed_experiment(*checkpoint, stage->asked, stage->data, stage->surroundings)
                             : RunExperiment{stage->asked, stage->asked, {}};
  chosen.experiment.optimizer.updates_before = updates_before;
  chosen.given.optimizer.updates_before = updates_before;
  stage->capacity = run_capacity(stage->asked, stage->data.description, device, /*dataset_is_loaded=*/true, held);
  chosen.experiment = with_agreed_cut(chosen.experiment, stage->data.description, device, stage->capacity, ranks);
  stage->compiled = std::make_unique<CompiledExperiment>(
      compile_experiment(chosen.experiment, stage->data.description, device, stage->capacity));
  if (chosen.adapted.empty())
    stage->given = stage->compiled->experiment;
  else
    stage->given = std::move(chosen.given);
  stage->adapted = std::move(chosen.adapted);
  stage->frozen.emplace(stage->given, stage->compiled->program);
  stage->frozen->require_matches();
  return stage;
}

std::unique_ptr<RunningStage> describe_stage(const RunStages& stages, std::size_t index, Device& device,
                                             std::shared_ptr<const CachedSegments> kept, std::int64_t held,
                                             Communicator* ranks) {
  auto stage = std::make_unique<RunningStage>();
  stage->config = stages.config(index);
  stage->asked = stages.experiment(index);
  stage->asked.memory.kept = std::move(kept);
  stage->data.description = stages.description_of(index);
  // Where it is other data, what is held now goes before.
  stage->capacity = run_capacity(stage->asked, stage->data.description, device,
                                 /*dataset_is_loaded=*/!stages.has_other_data(index), held);
  const Experiment cut = with_agreed_cut(stage->asked, stage->data.description, device, stage->capacity, ranks);
  stage->compiled =
      std::make_unique<CompiledExperiment>(compile_experiment(cut, stage->data.description, device, stage->capacity));
  stage->given = stage->compiled->experiment;
  return stage;
}

std::vector<std::string> warnings_of(const RunningStage& stage) {
  std::vector<std::string> warnings = run_warnings(stage.compiled->experiment, stage.compiled->schedule);
  if (std::string text = settled_cut_text(stage.asked, stage.compiled->experiment); !text.empty())
    warnings.push_back(std::move(text));
  return warnings;
}

void check_stage_of(const Checkpoint& checkpoint, const RunStages& stages, const std::string& resumption) {
  const StageBegin& stage = checkpoint.state.stage;
  if (stage.name.empty() != !stages.has_stages())
    throw DataError(
        fmt::format("checkpoint {} was made by a run {} stages, and the configuration has {}\n"
                    "To train on from its weights alone: --weights {} output=FOLDER",
                    checkpoint.path, stage.name.empty() ? "without" : "with", stage.name.empty() ? "some" : "none",
                    checkpoint.path));
  if (!stages.has_stages()) return;
  if (stage.index >= stages.count() || stages.name_of(stage.index) != stage.name)
    throw DataError(fmt::format("checkpoint {} was made in stage {} '{}', and the configuration has {} there",
                                checkpoint.path, stage.index + 1, stage.name,
                                stage.index < stages.count() ? fmt::format("'{}'", stages.name_of(stage.index))
                                                             : fmt::format("{} stages, none", stages.count())));
  if (stage.index >= stages.first() && stage.index <= stages.last()) return;
  const std::string weights_alone = fmt::format(
      "To begin a stage with its weights: --weights {} output=FOLDER in place of --resume", checkpoint.path);
  if (stage.index + 1 == stages.first() && !resumption.empty())
    throw ConfigError(
        fmt::format("checkpoint {} is of stage {}, right before {}; without --from, --resume ends {}, where it has not "
                    "ended, and goes on with {}:\n  {}\n{}",
                    checkpoint.path, stage.name, stages.name_of(stages.first()), stage.name,
                    stages.name_of(stages.first()), resumption, weights_alone));
  throw ConfigError(fmt::format("checkpoint {} is of stage {}, which --from and --until leave out\n{}", checkpoint.path,
                                stage.name, weights_alone));
}

namespace {

/// What of the optimizer's state makes it another one; empty: it is the same.
std::string state_difference(const Experiment& before, const Experiment& after) {
  const bool was_adam = before.optimizer.type != OptimizerType::sgd,
             is_adam = after.optimizer.type != OptimizerType::sgd;
  if (was_adam != is_adam)
    return is_adam ? "SGD has no moments to go on with, and Adam's are another state"
                   : "Adam's moments are no momentum of SGD";
  if (is_adam && before.memory.moments != after.memory.moments) return "memory.moments is another one";
  if (!is_adam && before.optimizer.momentum == 0 && after.optimizer.momentum > 0) return "there was no momentum";
  return "";
}

}  // namespace

ProcessMemory process_memory_of(const RunningStage& stage, const Device& device) {
  return process_memory(stage.compiled->experiment, stage.compiled->program, stage.data.description, device);
}

void check_state_goes_on(const Experiment& before, const StageConfig& stage) {
  const std::string difference = state_difference(before, *stage.experiment);
  if (stage.state != StateCarry::keep || difference.empty()) return;
  throw located_error(stage.location,
                      fmt::format("stage '{}' keeps the optimizer's state, and {}", stage.name, difference),
                      "optimizer: clear, or the optimizer of the stage before");
}

StateContinuation continue_state(const HeldTensors& held, const CompiledExperiment& trained, const Program& after,
                                 const StageConfig& next, const StageBegin& begin, std::int64_t step) {
  StateContinuation result;
  // Skipped updates are counted beside the loss scale, as long as there is one.
  const std::int64_t skipped = held.num_skipped().value_or(0);
  const std::int64_t counted_on = after.loss_scale >= 0 ? 0 : skipped, made = step - (skipped - counted_on);
  const std::string difference = state_difference(trained.experiment, *next.experiment);
  const bool keeps =
      next.state == StateCarry::keep || (next.state == StateCarry::unless_frozen_otherwise && !next.freezes_otherwise);
  std::vector<char> clears(next.experiment->groups.size(), 0);
  for (const std::string& group : next.cleared_groups) {
    const auto named = [&](const LayerGroup& each) { return each.name == group; };
    const auto found = std::find_if(next.experiment->groups.begin(), next.experiment->groups.end(), named);
    require_internal(found != next.experiment->groups.end(), "a stage clears layer groups that are there");
    clears[static_cast<std::size_t>(found - next.experiment->groups.begin())] = 1;
  }
  std::set<std::string> was_trained;
  for (const Parameter& parameter : trained.program.parameters)
    if (parameter.trainable) was_trained.insert(parameter.name);
  for (std::size_t p = 0; p < after.parameters.size(); ++p) {
    const Parameter& parameter = after.parameters[p];
    if (!parameter.trainable) continue;
    const bool is_cleared = !clears.empty() && clears[static_cast<std::size_t>(parameter.group)] != 0;
    const bool continues = keeps && difference.empty() && !is_cleared && was_trained.contains(parameter.name) &&
                           held.can_continue(after, p);
    if (continues) {
      const auto known = begin.updates_before.find(parameter.name);
      result.updates_before[parameter.name] = (known == begin.updates_before.end() ? 0 : known->second) + counted_on;
      result.kept.insert(parameter.name);
      ++result.num_continued;
    } else {
      result.updates_before[parameter.name] = made;
      ++result.num_begun;
    }
  }
  return result;
}

}  // namespace trainer
