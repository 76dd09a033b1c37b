#include "engine/train/timed_network.h"

#include "engine/config/load_experiment.h"
#include "engine/plan/settle_experiment.h"
#include "engine/program/compile.h"
#include "engine/train/training_run.h"

namespace trainer {

TimedNetwork time_network(std::string_view yaml, const std::string& name, const std::vector<std::string>& overrides,
                          Device& device, const TimingOptions& options) {
  const Experiment asked = parse_experiment(yaml, name, overrides);
  const LoadedData data = load_data(asked.data, asked.seed);
  const std::int64_t capacity = run_capacity(asked, data.description, device, /*dataset_is_loaded=*/true);
  const Experiment experiment = settle_experiment(asked, data.description, device, capacity);
  TimedNetwork timed{compile(experiment, data.description, device), RunSchedule(experiment, data.description), {}};
  timed.timing = time_steps(experiment, data, timed.program, timed.schedule, device, capacity, options);
  return timed;
}

}  // namespace trainer
