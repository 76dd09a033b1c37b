#include <catch2/catch.hpp>

#include <set>

#include "cuda/device/cuda_call.h"
#include "cuda/launch/launch_failure.h"
#include "cuda/library/cublaslt_descriptors.h"
#include "engine/errors.h"

using namespace trainer;
using namespace trainer::cuda;
using Catch::Contains;

namespace {

constexpr CudaVersions current{13000, 13010};

}  // namespace

TEST_CASE("a machine without a driver is told to install one") {
  const std::string text = explain_failure(cudaErrorInsufficientDriver, "count the GPUs", {13000, 0});
  CHECK_THAT(text, Contains("no NVIDIA driver") && Contains("libcuda.so.1") && Contains("device.type=cpu"));
  // The toolkit's stand-in for libcuda is not a driver, whatever version it answers.
  CHECK(explain_failure(cudaErrorStubLibrary, "count the GPUs", current) == text);
}

TEST_CASE("a driver that is too old is told with both versions") {
  for (const cudaError_t error :
       {cudaErrorInsufficientDriver, cudaErrorCallRequiresNewerDriver, cudaErrorUnsupportedPtxVersion})
    CHECK_THAT(explain_failure(error, "count the GPUs", {13000, 12020}),
               Contains("CUDA 12.2") && Contains("CUDA 13.0") && Contains("device.type=cpu"));
}

TEST_CASE("a GPU that is not there or not ready is told with what to do") {
  struct Case {
    cudaError_t error;
    const char* said;
  };
  for (const Case& one :
       {Case{cudaErrorNoDevice, "CUDA_VISIBLE_DEVICES"}, Case{cudaErrorInvalidDevice, "trainer doctor"},
        Case{cudaErrorSystemDriverMismatch, "restart"}, Case{cudaErrorSystemNotReady, "fabricmanager"},
        Case{cudaErrorNoKernelImageForDevice, "TRAINER_CUDA_ARCHITECTURES"},
        Case{cudaErrorDevicesUnavailable, "nvidia-smi"}})
    CHECK_THAT(explain_failure(one.error, "start the GPU", current), Contains(one.said) && Contains("device.type=cpu"));
}

TEST_CASE("a fault of the GPU tells of the checkpoint and of --debug-sync") {
  for (const cudaError_t error : {cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorHardwareStackError,
                                  cudaErrorIllegalInstruction, cudaErrorIllegalAddress, cudaErrorInvalidAddressSpace,
                                  cudaErrorInvalidPc, cudaErrorMisalignedAddress, cudaErrorLaunchFailure,
                                  cudaErrorLaunchTimeout, cudaErrorAssert, cudaErrorUnknown}) {
    const std::string text = explain_failure(error, "wait for its kernels", current);
    CHECK(is_fault(error));
    CHECK_THAT(text, Contains("last checkpoint is intact") && Contains("--debug-sync") && Contains("queued earlier") &&
                         Contains("wait for its kernels") && Contains(cudaGetErrorName(error)));
  }
}

TEST_CASE("after what CUDA refuses to record, and after any failure but a fault, the device goes on") {
  std::set<int> refused = {cudaErrorMemoryAllocation, cudaErrorNotSupported, cudaErrorInvalidValue,
                           cudaErrorLaunchOutOfResources, cudaErrorGraphExecUpdateFailure};
  for (int code = cudaErrorStreamCaptureUnsupported; code <= cudaErrorStreamCaptureWrongThread; ++code)
    refused.insert(code);
  CHECK(refused.contains(907));
  for (const int code : refused) {
    INFO(cudaGetErrorName(static_cast<cudaError_t>(code)));
    CHECK_FALSE(is_fault(static_cast<cudaError_t>(code)));
  }
  CHECK_FALSE(is_fault(cudaSuccess));
  CHECK_FALSE(is_fault(cudaErrorNotReady));
}

TEST_CASE("what CUDA refuses while a step is recorded is told with the option that records none") {
  for (int code = 900; code <= 908; ++code) {
    const auto error = static_cast<cudaError_t>(code);
    CHECK_THAT(explain_failure(error, "copy to the GPU", current),
               Contains("copy to the GPU while a step is recorded") && Contains("device.cuda_graph=false") &&
                   Contains(cudaGetErrorName(error)) && !Contains("report"));
  }
}

TEST_CASE("a kernel that cannot be started is told with its size") {
  CHECK_THROWS_AS(throw_launch_failure(cudaErrorInvalidConfiguration, {1}, {2048}), DeviceError);
  CHECK_THROWS_WITH(throw_launch_failure(cudaErrorInvalidConfiguration, {7, 5, 3}, {2048, 1, 1}),
                    Contains("start a kernel of 7×5×3 blocks of 2048×1×1 threads") &&
                        Contains("cudaErrorInvalidConfiguration") && Contains("--debug-sync"));
  CHECK_THROWS_WITH(throw_launch_failure(cudaErrorNoKernelImageForDevice, {1}, {1}),
                    Contains("TRAINER_CUDA_ARCHITECTURES"));
}

TEST_CASE("a fault that a launch finds is laid at no kernel's door") {
  for (const int error : {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorECCUncorrectable}) {
    CHECK_THROWS_AS(throw_launch_failure(error, {7, 5, 3}, {256, 1, 1}), DeviceError);
    CHECK_THROWS_WITH(throw_launch_failure(error, {7, 5, 3}, {256, 1, 1}),
                      Contains("queued earlier") && Contains("--debug-sync") && Contains("--resume") &&
                          Contains("Xid") && !Contains("blocks of"));
  }
}

TEST_CASE("cuBLASLt's failures tell what to do") {
  CHECK_NOTHROW(require_cublas(CUBLAS_STATUS_SUCCESS, "start"));
  CHECK_THROWS_AS(require_cublas(CUBLAS_STATUS_EXECUTION_FAILED, "multiply"), DeviceError);
  for (const cublasStatus_t status : {CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR})
    CHECK_THROWS_WITH(require_cublas(status, "multiply"),
                      Contains("could not multiply") && Contains("--resume") && Contains("--debug-sync"));
  for (const cublasStatus_t status : {CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED})
    CHECK_THROWS_WITH(require_cublas(status, "start"),
                      Contains("trainer doctor") && Contains("end other programs") && Contains("device.type=cpu"));
  CHECK_THROWS_WITH(require_cublas(CUBLAS_STATUS_ARCH_MISMATCH, "start"), Contains("device.type=cpu"));
}

TEST_CASE("only what CUDA itself could not allocate speaks of memory, and no failure calls itself out of memory") {
  for (int code = 1; code < 1000; ++code) {
    const auto error = static_cast<cudaError_t>(code);
    if (std::string_view(cudaGetErrorName(error)) == "unrecognized error code") continue;
    const std::string text = explain_failure(error, "copy to the GPU", current);
    INFO(code << ": " << text);
    CHECK((text.find("no memory left") != std::string::npos) == (error == cudaErrorMemoryAllocation));
    CHECK_THAT(text, !Contains("out of memory", Catch::CaseSensitive::No));
    CHECK(text.back() != '.');
    CHECK(text.size() > 60);
  }
  CHECK_THAT(explain_failure(cudaErrorMemoryAllocation, "copy to the GPU", current),
             Contains("no memory left to copy to the GPU") && Contains("memory.limit"));
}

TEST_CASE("an error of CUDA is a DeviceError, and success is none") {
  CHECK_NOTHROW(require_cuda(cudaSuccess, "start the GPU"));
  CHECK_THROWS_AS(require_cuda(cudaErrorMemoryAllocation, "start the GPU"), DeviceError);
  CHECK_THROWS_WITH(require_cuda(cudaErrorInvalidValue, "start the GPU"),
                    Contains("start the GPU") && Contains("cudaErrorInvalidValue"));
}

TEST_CASE("a wrong index is told with how many GPUs there are") {
  CHECK_THAT(explain_wrong_index(63, 1), Contains("no GPU 63") && Contains("1 GPU,") && Contains("device.type=cuda,"));
  CHECK_THAT(explain_wrong_index(8, 8), Contains("8 GPUs") && Contains("cuda:0 to cuda:7"));
}

TEST_CASE("a GPU that no kernel of the build runs on is told why") {
  const std::string all = "sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120 compute_120";
  for (const int capability : {75, 80, 86, 87, 89, 90, 100, 103, 120, 121, 130})
    CHECK(explain_unusable("a GPU", capability, all).empty());
  // 11.0 has a major version of its own, between cubins and older than the PTX.
  CHECK_THAT(explain_unusable("NVIDIA Thor", 110, all), Contains("ARCHITECTURES=110") && Contains("11.0"));

  const std::string hopper = "sm_90 compute_90";
  CHECK(explain_unusable("NVIDIA H200", 90, hopper).empty());
  CHECK(explain_unusable("NVIDIA B200", 100, hopper).empty());
  CHECK_THAT(explain_unusable("NVIDIA A100", 80, hopper),
             Contains("NVIDIA A100") && Contains("8.0") && Contains(hopper) && Contains("ARCHITECTURES=80"));
  CHECK_THAT(explain_unusable("Tesla V100", 70, all),
             Contains("Tesla V100 is too old") && Contains("7.0") && Contains("7.5"));
}

TEST_CASE("versions are told as CUDA's own pages write them") {
  CHECK(version_text(13000) == "13.0");
  CHECK(version_text(12080) == "12.8");
}
