#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/library/convolution.h"
#include "cuda/model/cuda_options.h"
#include "engine/device/device.h"

namespace trainer::cuda {

// Note [The CUDA module]
// ~~~~~~~~~~~~~~~~~~~~~~
// cuBLASLt alone takes 80 ms and 200 MB of resident memory to load, so the parts that need NVIDIA's libraries are a
// shared object, libtrainer_cuda.so, that cli/cuda_module.cpp loads where a CUDA device is asked for. trainer starts
// without them, and runs on machines that have none. The module carries its own copy of the engine folders below it;
// the two sides meet in this table and in classes with virtual functions. Errors cross by their types' names.

/// One device of this machine, usable or not.
struct CudaDeviceInfo {
  int index = 0;
  std::string name;
  int compute_capability = 0;  ///< 90 for 9.0
  std::int64_t total_bytes = 0, free_bytes = 0;
  std::string problem;  ///< why it cannot be used, as a sentence that tells what to do; empty: it can
};

/// What `trainer doctor` tells.
struct CudaFacts {
  std::string toolkit, cublas, cudnn, driver;  ///< versions; empty where absent
  std::string architectures;                   ///< kernel images in this build: "sm_75 sm_80 …"
  std::string problem;                         ///< why there is no device: no driver, too old a driver, none found
  std::vector<CudaDeviceInfo> devices;
};

struct Module {
  CudaFacts (*facts)();
  /// Throws DeviceError, a sentence that tells what to do.
  std::unique_ptr<Device> (*make_device)(int index, const CudaOptions& options);
  /// For a device that is only described: `properties_json` is what cuDNN's device-properties descriptor takes.
  std::unique_ptr<ConvolutionPlanner> (*make_planner)(const std::string& properties_json, const CudaOptions& options);
};

}  // namespace trainer::cuda

/// The module's one symbol.
extern "C" const trainer::cuda::Module* trainer_cuda_module();
