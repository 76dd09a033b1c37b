#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

namespace trainer::cuda {

/// As CUDA counts them: 13000 is 13.0.
struct CudaVersions {
  int toolkit = 0;  ///< that this module was built with
  int driver = 0;   ///< the newest that the driver serves; 0: no driver
};
CudaVersions cuda_versions();

/// "13.0" of 13000.
std::string version_text(int version);

/// What `error` means and what to do about it, as a sentence that ends without a stop. `doing` completes "could not …",
/// such as "copy to the device". Depends on its arguments alone.
std::string explain_failure(cudaError_t error, std::string_view doing, const CudaVersions& versions);

/// Whether the context is gone with `error`, so that every later call fails alike: how kernels end that cannot go on.
/// After anything else the device goes on, also after what CUDA refuses to record.
bool is_fault(cudaError_t error);

/// The same for a device that is chosen by its index.
std::string explain_wrong_index(int index, int num_devices);

/// Empty where kernels of this build can run; `architectures` as in CudaFacts, `compute_capability` 75 for 7.5.
std::string explain_unusable(std::string_view name, int compute_capability, std::string_view architectures);

/// Throws DeviceError for anything but success. A failed allocation is no exception: only a MemorySource may call it
/// out of memory, and it looks at the code itself.
void require_cuda(cudaError_t error, const char* doing);

/// For a library's call on `stream` that failed without saying why: throws DeviceError where the reason is a fault of
/// the device, mostly of what was queued earlier. Leaves no error of CUDA behind.
void require_no_fault(cudaStream_t stream, std::string_view doing);

/// Makes `index` the calling thread's device.
void use_device(int index);

/// No kernel runs on less.
inline constexpr int least_compute_capability = 75;

}  // namespace trainer::cuda
