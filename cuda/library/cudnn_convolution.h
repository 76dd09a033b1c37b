#pragma once

#include <cudnn.h>

#include <memory>
#include <string>
#include <vector>

#include "cuda/device/memory_changes.h"
#include "cuda/library/convolution.h"
#include "cuda/model/cuda_options.h"

namespace trainer::cuda {

/// Convolutions of a device that is only described: `properties_json` is what cuDNN's device-properties descriptor
/// takes, as in configs/gpus/<name>.cudnn.json. Needs no GPU and no driver. Throws DeviceError where cuDNN does not
/// take the description. With options.autotune the choices that the device stored are read.
std::unique_ptr<ConvolutionPlanner> make_cudnn_planner(const std::string& properties_json, const CudaOptions& options);

/// Convolutions on the calling thread's current device. Plans as make_cudnn_planner does from that device's own
/// properties, see Note [One plan] in cuda/library/cudnn_convolution.cpp.
class CudnnConvolutions {
 public:
  /// Starts cuDNN on the device. `changes` is told of the memory that timing takes. Throws DeviceError.
  CudnnConvolutions(const CudaOptions& options, std::shared_ptr<MemoryChanges> changes);
  ~CudnnConvolutions();
  CudnnConvolutions(CudnnConvolutions&&) noexcept;
  CudnnConvolutions& operator=(CudnnConvolutions&&) noexcept;

  ConvolutionPlanner& planner();
  /// Runs in the scratch that planner() tells. With options.autotune it times the engines of a call that no choice is
  /// stored for, in memory that it takes from the device for as long as that lasts, and stores the choice. The
  /// convolution may be used for as long as this object.
  std::unique_ptr<Convolution> prepare(const ConvolutionCall& call);
  /// ConvolutionLoader::note and EngineChoices::note, where there are such.
  std::vector<std::string> notes() const;
  /// Of the device: as long as this object.
  cudnnHandle_t handle() const;
  /// What make_cudnn_planner would need to plan for this device elsewhere.
  const std::string& properties_json() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trainer::cuda
