#include "engine/train/resumed_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/config/fields/enum_choices.h"
#include "engine/config/load_experiment.h"
#include "engine/config/text/utf8_text.h"
#include "engine/plan/search/technique_difference.h"
#include "engine/train/adaptation.h"

namespace trainer {
namespace {

/// No loss is below 0 but by the rounding of f32: a softmax's sum can be a little less than the 1 it stands for.
constexpr double least_loss = -1e-5;

/// Of `step` steps.
std::int64_t samples_until(const RunSchedule& schedule, std::int64_t step) {
  if (step == 0) return 0;
  const RunSchedule::Step last = schedule.step(step), last_of_epoch = schedule.step(schedule.steps_per_epoch());
  const std::int64_t per_epoch = last_of_epoch.first_batch * schedule.batch_size() + last_of_epoch.num_samples;
  return last.epoch * per_epoch + last.first_batch * schedule.batch_size() + last.num_samples;
}

}  // namespace

Experiment adapted_experiment(const Checkpoint& checkpoint, const Experiment& given, const DataDescription& data) {
  const auto refused = [&](std::string_view why) {
    return unusable_checkpoint(checkpoint.path, fmt::format("state.json: 'adapted.set' {}", why));
  };
  for (const std::string& text : checkpoint.state.adapted) {
    if (!is_technique_key(text.substr(0, text.find('='))))
      throw refused(fmt::format("has '{}', which no run is adapted to", shortened(text)));
  }
  try {
    Experiment adapted = parse_experiment(resolved_yaml(given), given.config_path, checkpoint.state.adapted);
    adapted.config_path = given.config_path;
    adapted.stage = given.stage;
    adapted.override_prefix = given.override_prefix;
    adapted.optimizer.updates_before = given.optimizer.updates_before;
    const bool has_batch = !adapted.train.batch_size.is_automatic();
    if (!has_batch || !keeps_samples(given, adapted, data)) throw refused("has other samples in each update");
    return adapted;
  } catch (const ConfigError& error) {
    throw refused(fmt::format("does not fit the configuration:\n{}", error.what()));
  }
}

void check_resumed_state(const Checkpoint& checkpoint, const Experiment& experiment, const RunSchedule& schedule) {
  const TrainingState& state = checkpoint.state;
  const StageBegin& begin = state.stage;
  const std::int64_t step = state.step - begin.step;
  const auto refuse = [&](std::string_view why) {
    throw unusable_checkpoint(checkpoint.path, fmt::format("state.json: {}", why));
  };
  if (step > schedule.total_steps()) {
    refuse(fmt::format("'step' is {}, and the {} ends after step {} (train.epochs, train.steps)", state.step,
                       begin.name.empty() ? "run" : "stage", begin.step + schedule.total_steps()));
  }
  if (const std::int64_t pass = begin.pass + passes_until(schedule, step); state.pass != pass)
    refuse(fmt::format("'pass' is {}, and {} steps of the run have {} batches", state.pass, state.step, pass));
  if (const std::int64_t samples = begin.samples + samples_until(schedule, step); state.samples != samples)
    refuse(fmt::format("'samples' is {}, and {} steps of the run train on {}", state.samples, state.step, samples));
  const Metric metric = experiment.checkpoint.best;
  const double lowest = metric == Metric::loss ? least_loss
                        : metric == Metric::r2 ? -std::numeric_limits<double>::infinity()
                                               : 0;
  const bool is_share = metric != Metric::loss && metric != Metric::mae;
  for (const auto& [key, value] :
       {std::pair{"best.value", state.best_value}, std::pair{"early_stopping.value", state.stopping_value}}) {
    const bool can_be = !value || (*value >= lowest && (!is_share || *value <= 1));
    if (!can_be) refuse(fmt::format("'{}' is {}, which is no {}", key, *value, metric_choices().name_of(metric)));
  }
}

}  // namespace trainer
