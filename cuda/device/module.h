#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/library/attention.h"
#include "cuda/library/convolution.h"
#include "cuda/library/matmul.h"
#include "cuda/model/cuda_options.h"
#include "engine/device/device.h"

namespace trainer::cuda {

// Note [The CUDA module]
// ~~~~~~~~~~~~~~~~~~~~~~
// cuBLASLt alone takes 80 ms and 200 MB of resident memory to load, so the parts that need NVIDIA's libraries are a
// shared object, libtrainer_cuda.so, that cuda/model/load_module.cpp loads where a CUDA device is asked for. trainer
// starts without them, and runs on machines that have none. The module carries its own copy of the engine folders below
// it; the two sides meet in this table and in classes with virtual functions. Errors cross by their types' names.

/// One device of this machine, usable or not.
struct CudaDeviceInfo {
  int index = 0;
  std::string name;
  int compute_capability = 0;  ///< 90 for 9.0
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;            ///< now; 0 where unknown
  int sm_clock = 0, memory_clock = 0;     ///< now, in MHz; 0 where unknown
  std::vector<DeviceProcess> processes;   ///< that hold memory of it, without this one, largest first
  std::string cudnn_properties;           ///< as make_planner takes them; empty unless the device was tried
  std::string used_bytes_origin;          ///< what a run's `used` counts here; empty unless the device was tried
  std::vector<NamedBytes> outside_bytes;  ///< DeviceModel::outside_allocator; empty unless the device was tried
  std::vector<std::string> notes;         ///< Device::notes; empty unless the device was tried
  std::string problem;                    ///< why it cannot be used, as a sentence that tells what to do; empty: it can
};

/// What can be told of CUDA here.
struct CudaFacts {
  std::string toolkit, cublas, cudnn, driver;  ///< versions; empty where absent
  std::string nccl;                            ///< likewise; asked where devices are tried
  std::string architectures;                   ///< kernel images in this build: "sm_75 sm_80 …"
  std::string problem;                         ///< why there is no device: no driver, too old a driver, none found
  std::vector<CudaDeviceInfo> devices;
};

struct Module {
  /// With `tries_devices`, each device that looks usable is started, which takes up to a second and some memory.
  CudaFacts (*facts)(bool tries_devices);
  /// Throws DeviceError, a sentence that tells what to do.
  std::unique_ptr<Device> (*make_device)(int index, const CudaOptions& options);
  /// For a device that is only described: `properties_json` is what cuDNN's device-properties descriptor takes.
  std::unique_ptr<ConvolutionPlanner> (*make_planner)(const std::string& properties_json, const CudaOptions& options);
  /// The same for attention.
  std::unique_ptr<AttentionPlanner> (*make_attention_planner)(const std::string& properties_json);
  /// The same for products; null where they need what matmul_workspace_bytes says.
  std::unique_ptr<MatmulPlanner> (*make_matmul_planner)(const std::string& properties_json, const CudaOptions& options);
};

}  // namespace trainer::cuda

/// The module's one symbol.
extern "C" const trainer::cuda::Module* trainer_cuda_module();
