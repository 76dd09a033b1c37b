#include "cli/device_factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "cli/terminal/terminal.h"
#include "cuda/model/described_device.h"
#include "cuda/model/load_module.h"
#include "engine/config/diagnostic.h"
#include "engine/cpu/cpu_device.h"
#include "engine/device/processor.h"
#include "engine/errors.h"
#include "engine/report/text/style.h"
#include "engine/train/training_run.h"

namespace trainer {

namespace {

cuda::CudaOptions cuda_options_of(const Experiment& experiment) {
  return {.tf32 = experiment.device.tf32,
          .autotune = experiment.device.autotune,
          .deterministic = experiment.device.deterministic,
          .expandable_segments = experiment.memory.expandable_segments,
          .sums = {.layout = rank_layout(experiment.parallel), .in_order = experiment.parallel.deterministic}};
}

/// Which of so many GPUs a rank takes where the configuration says nothing: each of those on a machine its own, as far
/// as they go. Where a rank sees its own alone, that one.
std::size_t own_of(const ParallelConfig& parallel, std::size_t num_gpus) {
  return static_cast<std::size_t>(parallel.local_rank) % num_gpus;
}

/// What is asked of ranks alone: CUDA counts fast, but one process takes the first whatever there is.
std::size_t num_gpus(const cuda::Module& module, const Experiment& experiment) {
  return total_ranks(experiment.parallel) > 1 ? module.facts(false).devices.size() : 1;
}

std::unique_ptr<Device> make_cuda_device(const Experiment& experiment) {
  std::string problem;
  const cuda::Module* module = cuda::load_module(problem);
  if (module == nullptr) throw DeviceError(problem);
  const std::size_t index = experiment.device.is_numbered
                                ? static_cast<std::size_t>(experiment.device.index)
                                : own_of(experiment.parallel, std::max<std::size_t>(num_gpus(*module, experiment), 1));
  return module->make_device(static_cast<int>(index), cuda_options_of(experiment));
}

/// Whether the system shows an NVIDIA GPU, whatever becomes of it.
bool shows_gpu() {
  std::error_code error;
  if (std::filesystem::exists("/dev/dxg", error)) return true;  // Windows' subsystem for Linux
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia") && name.size() > 6 && std::isdigit(static_cast<unsigned char>(name[6])) != 0)
      return true;
  }
  return false;
}

/// Of GPUs that can be used the first, or a rank's own; null, and the reason in `problem`, where there is none.
std::unique_ptr<Device> try_cuda_devices(const Experiment& experiment, std::string& problem) {
  const cuda::Module* module = cuda::load_module(problem);
  if (module == nullptr) return nullptr;
  const cuda::CudaFacts facts = module->facts(false);
  problem = facts.problem;
  std::vector<cuda::CudaDeviceInfo> devices = facts.devices;
  if (total_ranks(experiment.parallel) > 1) {
    // Another rank's is not taken in the place of one that fails.
    std::erase_if(devices, [](const cuda::CudaDeviceInfo& device) { return !device.problem.empty(); });
    if (!devices.empty()) devices = {devices[own_of(experiment.parallel, devices.size())]};
    if (devices.empty() && !facts.devices.empty()) problem = facts.devices.front().problem;
  }
  for (const cuda::CudaDeviceInfo& device : devices) {
    std::string why = device.problem;
    try {
      if (why.empty()) return module->make_device(device.index, cuda_options_of(experiment));
    } catch (const DeviceError& error) {
      why = error.what();
    }
    if (problem.empty()) problem = why;
  }
  return nullptr;
}

std::unique_ptr<Device> make_cpu(const Experiment& experiment) {
  const DeviceConfig& config = experiment.device;
  constexpr int most_for_each = 16;
  const int most = most_for_each * usable_threads();
  if (config.threads > most) {
    throw located_error(config.threads_location,
                        fmt::format("device.threads is {}, and this process may use {}", config.threads,
                                    format_number_of(usable_threads(), "thread")),
                        fmt::format("at most {} here", most));
  }
  return make_cpu_device(device_threads(experiment, usable_threads()));
}

std::unique_ptr<Device> make_best_device(const Experiment& experiment) {
  std::string problem;
  // Without a driver nothing of CUDA's is loaded: that would take longer than many a command.
  if (cuda::has_driver_library())
    if (std::unique_ptr<Device> device = try_cuda_devices(experiment, problem)) return device;
  if (!problem.empty() && shows_gpu())
    write_text(stderr, fmt::format("note: device.type=auto takes the CPU, though there is a GPU: {}\n", problem));
  return make_cpu(experiment);
}

}  // namespace

std::unique_ptr<Device> make_device(const Experiment& experiment) {
  switch (experiment.device.type) {
    case DeviceType::automatic:
      return make_best_device(experiment);
    case DeviceType::cpu:
      return make_cpu(experiment);
    case DeviceType::cuda:
      return make_cuda_device(experiment);
  }
  throw InternalError("internal error: every device type is made");
}

std::unique_ptr<Device> MachineDevices::make(const Experiment& experiment) const { return make_device(experiment); }

std::unique_ptr<DeviceModel> MachineDevices::describe(const GpuProfile& profile, const Experiment& experiment) const {
  return cuda::make_described_device(profile, cuda_options_of(experiment), experiment.memory.workspace_limit);
}

int MachineDevices::usable_threads() const { return trainer::usable_threads(); }

}  // namespace trainer
