#pragma once

#include <cstdio>
#include <memory>

#include "cuda/device/cuda_device.h"
#include "engine/errors.h"

namespace trainer::cuda {

/// The first GPU; null, and told on stdout, where there is none that can be used.
inline std::unique_ptr<CudaDevice> device_or_skip(const CudaOptions& options = {}) {
  try {
    return make_cuda_device(0, options);
  } catch (const DeviceError& error) {
    std::printf("SKIPPED: needs a GPU: %s\n", error.what());
    return nullptr;
  }
}

}  // namespace trainer::cuda
