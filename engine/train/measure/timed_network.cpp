#include "engine/train/measure/timed_network.h"

#include "engine/config/load_experiment.h"
#include "engine/plan/capacity.h"

namespace trainer {

TimedNetwork time_network(std::string_view yaml, const std::string& name, const std::vector<std::string>& overrides,
                          Device& device, const TimingOptions& options) {
  const Experiment asked = parse_experiment(yaml, name, overrides);
  const LoadedData data = load_data(asked.data, asked.seed);
  const std::int64_t capacity = run_capacity(asked, data.description, device, /*dataset_is_loaded=*/true);
  TimedNetwork timed{compile_experiment(asked, data.description, device, capacity), {}};
  timed.timing = time_steps(timed.compiled, data, device, capacity, options);
  return timed;
}

}  // namespace trainer
