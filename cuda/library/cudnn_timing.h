#pragma once

#include <cudnn.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "cuda/device/memory_changes.h"
#include "cuda/library/cudnn_plans.h"

namespace trainer::cuda {

/// The place in `plans` of the one that takes the least time on the device of `handle`, of those that load and run
/// there. Operands and scratch are taken from the device and given back, which `changes` is told of; empty where it has
/// no room for them, or no plan runs. Throws DeviceError where the device itself fails. The handle is left without a
/// stream.
std::optional<std::size_t> fastest_plan(const ConvolutionCall& call, const std::vector<CudnnPlan>& plans,
                                        cudnnHandle_t handle, MemoryChanges& changes);

}  // namespace trainer::cuda
