#include "engine/plan/capacity.h"

#include <algorithm>

#include "engine/plan/process_memory.h"

namespace trainer {

std::int64_t memory_for_allocator(std::int64_t available, const Experiment& experiment, const DataDescription& data,
                                  const DeviceModel& device, bool dataset_is_loaded) {
  // Ranks on one machine share its memory.
  if (device.kind() == "cpu") available /= ranks_here(experiment.parallel);
  return std::max<std::int64_t>(available - host_reserve(experiment, data, device, dataset_is_loaded), 0);
}

std::int64_t within_limit(std::int64_t num_bytes, const Experiment& experiment) {
  return std::min(num_bytes, experiment.memory.limit.value_or(num_bytes));
}

std::int64_t run_capacity(const Experiment& experiment, const DataDescription& data, const Device& device,
                          bool dataset_is_loaded, std::int64_t held) {
  const std::int64_t available = device.available_bytes() + held;
  return within_limit(memory_for_allocator(available, experiment, data, device, dataset_is_loaded), experiment);
}

Capacity capacity_of(const Experiment& experiment, const DataDescription& data, const Device& device) {
  const std::int64_t num_bytes = run_capacity(experiment, data, device, /*dataset_is_loaded=*/false);
  const bool limited = experiment.memory.limit && *experiment.memory.limit <= num_bytes;
  const bool is_share = device.kind() == "cpu" && ranks_here(experiment.parallel) > 1;
  return {num_bytes, limited    ? "memory.limit"
                     : is_share ? "a rank's share of what is available on this machine"
                                : "available on this machine"};
}

}  // namespace trainer
