#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/library/convolution.h"

namespace trainer::cuda {

/// One way in which cuDNN computes a convolution.
struct CudnnPlan {
  std::string engine;  ///< cuDNN's name for the engine and its settings: "eng28_k2=4_k3=0"
  std::int64_t workspace_bytes = 0;
  std::vector<std::uint8_t> serialized;  ///< what load_cudnn_plan takes
};

/// What cuDNN can do on a device that is known by its properties alone. Needs no GPU and no driver.
class CudnnPlans {
 public:
  /// Throws DeviceError where cuDNN does not take `properties_json`. With `holds_nvrtc` libnvrtc stays loaded from the
  /// first question on, which makes many of them cheaper; else from the first with statistics on.
  explicit CudnnPlans(const std::string& properties_json, bool holds_nvrtc = false);
  ~CudnnPlans();
  CudnnPlans(CudnnPlans&&) noexcept;
  CudnnPlans& operator=(CudnnPlans&&) noexcept;

  /// At most `max_plans` plans for `call`, those that cuDNN's heuristics put first, first; always the same. All keep to
  /// the call's workspace limit, or where none does there is one, that with the least scratch. All give the same bits
  /// on every run, and without `tf32` compute products of f32 in f32. Takes 0.3 ms for one plan and 0.2 ms for
  /// each other, once 0.4 s for loading cuDNN's parts. Throws DeviceError where there is none.
  std::vector<CudnnPlan> find(const ConvolutionCall& call, std::size_t max_plans) const;

  /// "NVIDIA H200", from the properties; and the library's version, 91900.
  const std::string& device_name() const;
  static std::int64_t cudnn_version();
  /// All that the answers of find() for a device depend on, but for the call and has_nvrtc().
  static std::string identity(const std::string& properties_json);
  /// Whether libnvrtc is found, without which cuDNN serves fewer calls with statistics.
  static bool has_nvrtc();

 private:
  struct Device;
  std::unique_ptr<Device> device_;
};

/// The properties of the device that `handle` was made for, as CudnnPlans takes them.
std::string cudnn_device_properties(cudnnHandle_t handle);

/// A plan that can run on the device that `handle` was made for, which must outlive it. Throws DeviceError where the
/// device or the library is not that of the plan.
std::unique_ptr<Convolution> load_cudnn_plan(const CudnnPlan& plan, const ConvolutionCall& call, cudnnHandle_t handle);
/// `call` planned anew, by the device itself, among the same engines as CudnnPlans::find: `planned`'s, or the first
/// that needs no more scratch than that. Throws DeviceError where there is none.
std::unique_ptr<Convolution> plan_cudnn_here(const CudnnPlan& planned, const ConvolutionCall& call,
                                             cudnnHandle_t handle);

}  // namespace trainer::cuda
