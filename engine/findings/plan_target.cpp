#include "engine/findings/plan_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/bytes.h"
#include "engine/errors.h"
#include "engine/findings/gpu_profiles.h"
#include "engine/findings/known_rates.h"

namespace trainer {
namespace {

std::int64_t parse_capacity(const std::string& text) {
  const std::optional<std::int64_t> num_bytes = parse_bytes(text);
  if (!num_bytes)
    throw ConfigError(
        fmt::format("--capacity '{}' is not a size; write bytes or a unit, such as 1500MB or 2GiB", text));
  return *num_bytes;
}

RankLinks links_of(const GpuProfile& profile, const ParallelConfig& parallel) {
  return links_between(std::array{GpusOfRanks{&profile, total_ranks(parallel)}}, parallel.ranks_per_node);
}

PlanTarget this_machine(const DeviceSource& devices, const Experiment& experiment, const DataDescription& data,
                        const std::string& capacity) {
  std::unique_ptr<Device> device;
  try {
    device = devices.make(experiment);
  } catch (const DeviceError& error) {
    throw DeviceError(
        fmt::format("{}\n--gpu PROFILE plans for a GPU that is not here; --gpu list lists profiles", error.what()));
  }
  PlanTarget target;
  target.available_bytes =
      memory_for_allocator(device->available_bytes(), experiment, data, *device, /*dataset_is_loaded=*/false);
  const Capacity of_a_run = capacity_of(experiment, data, *device);
  target.capacity = capacity.empty() ? of_a_run : Capacity{parse_capacity(capacity), "--capacity"};
  if (target.capacity.num_bytes > of_a_run.num_bytes)
    target.notes.push_back(fmt::format("A run on this machine would have {} now ({}), less than --capacity.",
                                       format_bytes(of_a_run.num_bytes), of_a_run.origin));
  KnownRates known = rates_of(*device, experiment, devices.usable_threads());
  target.rates = std::move(known.rates);
  const std::int64_t ranks_per_node = experiment.parallel.ranks_per_node;
  target.rates.links.ranks_per_node = ranks_per_node;
  if (device->kind() == "cuda") {
    if (ranks_per_node == 0) target.rates.links.ranks_per_node = usual_gpus_per_node;
    for (const GpuProfile& profile : shipped_gpu_profiles())
      if (profile.name == device->name()) target.rates.links = links_of(profile, experiment.parallel);
  }
  target.rates_problem = std::move(known.problem);
  target.device = std::move(device);
  return target;
}

PlanTarget described_gpu(const DeviceSource& devices, const Experiment& experiment, const std::string& gpu,
                         const std::string& capacity) {
  const GpuProfile profile = find_gpu_profile(gpu);
  const DeviceConfig& config = experiment.device;
  constexpr int first_with_bf16 = 80;
  if (experiment.train.amp == Amp::bf16 && profile.compute_capability < first_with_bf16) {
    throw DeviceError(fmt::format("{} has compute capability {:.1f}, and bf16 needs 8.0; train.amp=fp16 runs there",
                                  profile.name, profile.compute_capability / 10.0));
  }
  PlanTarget target;
  target.device = devices.describe(profile, experiment);
  const std::int64_t free_bytes = std::max<std::int64_t>(
      0, profile.free_bytes() - target.device->communication_memory(rank_layout(experiment.parallel)).num_bytes);
  target.available_bytes = free_bytes;
  target.profile = profile.path;
  target.rates = profile_rates(profile, config.tf32);
  target.rates.links = links_of(profile, experiment.parallel);
  const std::string idle_origin = fmt::format("free on an idle {}", profile.name);
  target.capacity = {free_bytes, idle_origin};
  if (experiment.memory.limit && *experiment.memory.limit <= target.capacity.num_bytes)
    target.capacity = {*experiment.memory.limit, "memory.limit"};
  if (!capacity.empty()) {
    const std::int64_t asked = parse_capacity(capacity);
    if (asked <= free_bytes) {
      target.capacity = {asked, "--capacity"};
    } else {
      target.capacity = {free_bytes, idle_origin};
      target.notes.push_back(fmt::format("--capacity {} is more than an idle {} has free, so its {} are planned for.",
                                         capacity, profile.name, format_bytes(free_bytes)));
    }
  }
  if (config.type == DeviceType::cpu)
    target.notes.emplace_back("device.type is cpu, so a run would take the CPU; --gpu plans for the GPU all the same.");
  return target;
}

}  // namespace

PlanTarget find_plan_target(const DeviceSource& devices, const Experiment& experiment, const DataDescription& data,
                            const std::string& gpu, const std::string& capacity) {
  PlanTarget target = gpu.empty() ? this_machine(devices, experiment, data, capacity)
                                  : described_gpu(devices, experiment, gpu, capacity);
  target.capacity_given = !capacity.empty();
  return target;
}

}  // namespace trainer
