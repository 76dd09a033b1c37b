#pragma once

#include <memory>

#include "engine/device/device.h"

namespace trainer::cuda {

/// The CUDA device's ops on host memory: kernels through the host launch layer, library calls by interpreters of their
/// descriptions. Its queues put work off as long as the contract of Device allows: kernels, fills and copies run only
/// when a mark, a copy ahead or everything is waited for, and copies ahead when the next pass begins or they are waited
/// for. So whoever reads a result, changes host memory or frees device memory too early gets wrong numbers.
std::unique_ptr<Device> make_emulated_device(bool tf32 = false);

}  // namespace trainer::cuda
