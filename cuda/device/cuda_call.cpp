#include "cuda/device/cuda_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "cuda/launch/launch_failure.h"
#include "engine/errors.h"
#include "engine/trainer_command.h"

namespace trainer::cuda {

namespace {

constexpr const char* on_cpu = "use device.type=cpu to train without a GPU";

std::string explain_driver(const CudaVersions& versions) {
  if (versions.driver == 0)
    return fmt::format(
        "there is no NVIDIA driver on this machine (libcuda.so.1 is not found): install one, or start the container "
        "with its GPUs (docker run --gpus all), or {}",
        on_cpu);
  return fmt::format(
      "the NVIDIA driver is too old: it serves CUDA {}, and this build of trainer needs CUDA {}; renew the driver, or "
      "build with an older CUDA toolkit, or {}",
      version_text(versions.driver), version_text(versions.toolkit), on_cpu);
}

std::string explain_fault(cudaError_t error, std::string_view doing) {
  return fmt::format(
      "the GPU failed at something that was queued earlier, found when trainer was to {} ({}: {}); the run's last "
      "checkpoint is intact: continue it with --resume. --debug-sync names the op that fails; where it is another op "
      "each time, look for Xid messages in `dmesg` and for ECC errors in `nvidia-smi -q`",
      doing, cudaGetErrorName(error), cudaGetErrorString(error));
}

}  // namespace

CudaVersions cuda_versions() {
  CudaVersions versions;
  versions.toolkit = CUDART_VERSION;
  if (cudaDriverGetVersion(&versions.driver) != cudaSuccess) versions.driver = 0;
  return versions;
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

bool is_fault(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorIllegalAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorPriorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
    case cudaErrorAssert:
    case cudaErrorContained:
    case cudaErrorContextIsDestroyed:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

std::string explain_failure(cudaError_t error, std::string_view doing, const CudaVersions& versions) {
  if (is_fault(error)) return explain_fault(error, doing);
  const std::string doctor = trainer_command("doctor");
  switch (error) {
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorCallRequiresNewerDriver:
      return explain_driver(error == cudaErrorStubLibrary ? CudaVersions{versions.toolkit, 0} : versions);
    case cudaErrorUnsupportedPtxVersion:
      return explain_driver(versions);
    case cudaErrorNoDevice:
      return fmt::format(
          "the NVIDIA driver finds no GPU: look at `nvidia-smi` and at CUDA_VISIBLE_DEVICES, start the container with "
          "its GPUs (docker run --gpus all), or {}",
          on_cpu);
    case cudaErrorInvalidDevice:
      return fmt::format("there is no GPU of this index; `{}` lists them, or {}", doctor, on_cpu);
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return fmt::format(
          "the NVIDIA driver's library and its kernel module are of different versions: restart the machine, or take "
          "CUDA's compatibility library out of LD_LIBRARY_PATH, or {}",
          on_cpu);
    case cudaErrorSystemNotReady:
      return fmt::format(
          "the GPUs are not ready: start their services (`systemctl start nvidia-fabricmanager`), or wait, or {}",
          on_cpu);
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
      return fmt::format(
          "this build of trainer has no kernels for this GPU: build it with -DTRAINER_CUDA_ARCHITECTURES set to its "
          "compute capability, or {}",
          on_cpu);
    case cudaErrorDevicesUnavailable:
      return fmt::format(
          "the GPU is taken or was lost: another process may hold it alone (`nvidia-smi` shows its compute mode and "
          "its processes); a run that was under way has its last checkpoint intact, and --debug-sync names the op that "
          "fails; or {}",
          on_cpu);
    case cudaErrorMemoryAllocation:
      return fmt::format(
          "CUDA itself had no memory left to {}; what it needs lies beside the allocator's: lower memory.limit, or end "
          "other programs that use the GPU (`{}` lists them)",
          doing, doctor);
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
      return fmt::format("CUDA refuses to {} while a step is recorded ({}: {}); device.cuda_graph=false records none",
                         doing, cudaGetErrorName(error), cudaGetErrorString(error));
    default:
      return fmt::format(
          "CUDA could not {} ({}: {}); --debug-sync names the op. This is an error of trainer, or of the driver: "
          "please "
          "report it with the output of `{}`, or {}",
          doing, cudaGetErrorName(error), cudaGetErrorString(error), doctor, on_cpu);
  }
}

std::string explain_wrong_index(int index, int num_devices) {
  return fmt::format("there is no GPU {}: this machine has {}, counted from 0; use device.type=cuda{}, or {}", index,
                     num_devices == 1 ? std::string("1 GPU") : fmt::format("{} GPUs", num_devices),
                     num_devices > 1 ? fmt::format(":0 to cuda:{}", num_devices - 1) : "", on_cpu);
}

std::string explain_unusable(std::string_view name, int compute_capability, std::string_view architectures) {
  const auto dotted = [](int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); };
  if (compute_capability < least_compute_capability)
    return fmt::format("{} is too old: its compute capability is {}, and trainer needs {} or later (2018); {}", name,
                       dotted(compute_capability), dotted(least_compute_capability), on_cpu);
  std::istringstream words{std::string(architectures)};
  bool runs = false;
  for (std::string word; words >> word;) {
    const bool is_ptx = word.starts_with("compute_");
    if (!is_ptx && !word.starts_with("sm_")) continue;
    const int image = std::stoi(word.substr(word.find('_') + 1));
    // A cubin runs on its own major version, from its minor version on; PTX is compiled for whatever is newer.
    const bool same_major = image / 10 == compute_capability / 10;
    if (image <= compute_capability && (is_ptx || same_major)) runs = true;
  }
  if (runs) return {};
  return fmt::format(
      "this build of trainer has no kernels for {}, whose compute capability is {}: it has {}; build it with "
      "-DTRAINER_CUDA_ARCHITECTURES={}, or {}",
      name, dotted(compute_capability), architectures.empty() ? "none" : architectures, compute_capability, on_cpu);
}

void require_cuda(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  // Leaves no error behind that the next launch would take for its own.
  cudaGetLastError();
  throw DeviceError(explain_failure(error, doing, cuda_versions()));
}

void require_no_fault(cudaStream_t stream, std::string_view doing) {
  cudaError_t error = cudaPeekAtLastError();
  cudaStreamCaptureStatus capturing{};
  // A capture does not survive the question.
  if (!is_fault(error) && cudaStreamIsCapturing(stream, &capturing) == cudaSuccess &&
      capturing == cudaStreamCaptureStatusNone)
    error = cudaStreamQuery(stream);
  cudaGetLastError();
  if (is_fault(error)) throw DeviceError(explain_failure(error, doing, cuda_versions()));
}

void throw_launch_failure(int error, Dim3 grid, Dim3 block) {
  const auto code = static_cast<cudaError_t>(error);
  // Not of this kernel, so that its size would mislead.
  if (is_fault(code)) throw DeviceError(explain_failure(code, "start a kernel", cuda_versions()));
  const std::string doing = fmt::format("start a kernel of {}×{}×{} blocks of {}×{}×{} threads", grid.x, grid.y, grid.z,
                                        block.x, block.y, block.z);
  throw DeviceError(explain_failure(code, doing, cuda_versions()));
}

void use_device(int index) {
  thread_local int current = -1;
  if (current == index) return;
  require_cuda(cudaSetDevice(index), "use the GPU");
  current = index;
}

}  // namespace trainer::cuda
