#include "engine/plan/search/compiled_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/errors.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/process_memory.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/recompute/recompute.h"
#include "engine/program/recompute/searches.h"

namespace trainer {

CompiledExperiment compile_experiment(const Experiment& experiment, const DataDescription& data,
                                      const DeviceModel& device, std::int64_t capacity) {
  // What was searched for to settle it is what its program is compiled with.
  RecomputeSearches searches;
  RecomputeFronts fronts{.by_batch_size = {}, .searches = &searches};
  Experiment settled = settle_experiment(experiment, data, device, capacity, &searches);
  check_input_memory(settled, data, device);
  Program program = compile(settled, data, device, &fronts);
  const RunSchedule schedule(settled, data);
  return {std::move(settled), data, std::move(program), schedule};
}

void check_ranks_have_samples(const Experiment& experiment) {
  const std::int64_t num_ranks = experiment.parallel.data;
  if (const std::int64_t batch_size = experiment.train.batch_size.number().value_or(num_ranks); batch_size < num_ranks)
    throw ConfigError(fmt::format("{} ranks share a batch, and train.batch_size is {}", num_ranks, batch_size));
}

MemoryPlan plan_memory(const CompiledExperiment& compiled, std::int64_t capacity) {
  return make_memory_plan(compiled.program, compiled.schedule, capacity, allocator_options(compiled.experiment));
}

std::vector<std::string> layer_labels(const Program& program) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < program.layers.size(); ++i)
    labels.push_back(program.layer_label(static_cast<LayerId>(i)));
  return labels;
}

std::int64_t num_model_layers(const Program& program) {
  return std::count_if(program.layers.begin(), program.layers.end(), [](const Layer& each) { return !each.is_frozen; });
}

std::int64_t num_parameters(const Program& program) {
  std::int64_t count = 0;
  for (const Parameter& parameter : program.parameters)
    if (parameter.is_weight) count += parameter.type.num_elements();
  return count;
}

std::int64_t num_trained_parameters(const Program& program) {
  std::int64_t count = 0;
  for (const Parameter& parameter : program.parameters)
    if (parameter.trainable) count += parameter.type.num_elements();
  return count;
}

}  // namespace trainer
