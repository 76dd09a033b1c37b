#pragma once

#include <memory>

#include "engine/device/device.h"

namespace trainer {

/// The CPU through oneDNN and own loops, with `num_threads` OpenMP threads (0: all the process may use).
/// Every byte of tensors and scratch lives in what make_memory_source hands out, but for the slots of memory.offload.
std::unique_ptr<Device> make_cpu_device(int num_threads);

/// Name and version of the libraries behind it, for `doctor`.
std::string cpu_library_version();

}  // namespace trainer
