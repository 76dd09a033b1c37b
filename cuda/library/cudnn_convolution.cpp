#include "cuda/library/cudnn_convolution.h"

#include <cudnn.h>
#include <fmt/format.h>

#include <utility>

#include "cuda/device/cuda_call.h"
#include "cuda/library/convolution_loader.h"
#include "cuda/library/cudnn_planner.h"
#include "cuda/library/cudnn_timing.h"
#include "cuda/library/known_scratch.h"
#include "engine/errors.h"
#include "engine/trainer_command.h"

namespace trainer::cuda {

// Note [One plan]
// ~~~~~~~~~~~~~~~
// What is planned without a GPU must be what runs on one. So a plan is made in one way only, from a description of the
// device, by CudnnPlans: a device that is here writes its own description, and is then planned for as if it were not.
// The plan is handed over as cuDNN writes it down, engine and settings settled, and what is loaded from that must ask
// for the planned scratch or is refused. A description in configs/gpus/ that equals the device's own therefore yields
// the device's own plans; where it was written from public figures it may differ from it, and scripts/gpu_check.sh
// saves the device's.
// Where a plan is refused, or cuDNN does not take it, the convolution is planned anew with the handle, among the same
// engines and in no more than the planned scratch (ConvolutionLoader): the plan's bytes hold, the engine may be
// another, and the run and `trainer doctor` say so. With device.autotune a plan is the choice that an earlier process
// stored for the device, else the heuristics' first. Engines are timed only where a convolution without such a choice
// is prepared to run, and only those that need no more scratch than was planned: the fastest is stored and runs in the
// planned scratch, and what was planned holds for as long as the process. From the next one on, the stored choice is
// what is planned and what runs. Searches for changes that fit and plans that are only reported therefore time nothing.
// What cuDNN's heuristics say depends on its version: a plan holds for the version that made it.

namespace {

std::string cudnn_version_text() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string cure_of(cudnnStatus_t status) {
  const std::string doctor = trainer_command("doctor");
  switch (status) {
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
      return "it found no memory for itself: end other programs, or use device.type=cpu";
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return fmt::format(
          "it found no memory for itself on the GPU: end other programs that use it (`{}` lists them), or use "
          "device.type=cpu",
          doctor);
    case CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH:
      return "this GPU is too old for it: use device.type=cpu";
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER:
      return fmt::format(
          "the NVIDIA driver is too old for it: renew the driver (`{}` shows both), or use device.type=cpu", doctor);
    default:
      return fmt::format(
          "its libraries are missing or of different versions, or the GPU has no memory left: `{}` shows versions and "
          "who uses the GPU; install the cuDNN that this build was made with, or end other programs, or use "
          "device.type=cpu",
          doctor);
  }
}

class CudnnHandle {
 public:
  CudnnHandle() {
    const cudnnStatus_t status = cudnnCreate(&handle_);
    if (status == CUDNN_STATUS_SUCCESS) return;
    require_no_fault(nullptr, "start cuDNN");
    throw DeviceError(fmt::format("cuDNN {} could not be started on the GPU ({}); {}", cudnn_version_text(),
                                  cudnnGetErrorString(status), cure_of(status)));
  }
  ~CudnnHandle() { cudnnDestroy(handle_); }
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

CudnnPlanner make_planner(CudnnPlans plans, const CudaOptions& options, PlanTimer timer) {
  if (!options.autotune) return CudnnPlanner(std::move(plans));
  const std::string path = engine_choices_path("convolutions", plans.device_name(), CudnnPlans::cudnn_version());
  return {std::move(plans), path, std::move(timer)};
}

}  // namespace

std::unique_ptr<ConvolutionPlanner> make_cudnn_planner(const std::string& properties_json, const CudaOptions& options) {
  auto planner = std::make_unique<CudnnPlanner>(make_planner(CudnnPlans(properties_json, true), options, {}));
  if (options.autotune) return planner;
  const std::string identity = CudnnPlans::identity(properties_json);
  const std::string path = known_scratch_path(device_name_in(properties_json), CudnnPlans::cudnn_version(), identity);
  if (path.empty()) return planner;
  return std::make_unique<KnownScratchPlanner>(std::move(planner), KnownScratch(path, identity),
                                               [] { return CudnnPlans::has_nvrtc() ? "" : " without nvrtc"; });
}

struct CudnnConvolutions::Parts {
  Parts(const CudaOptions& options, std::shared_ptr<MemoryChanges> memory_changes)
      : changes(std::move(memory_changes)),
        properties_json(cudnn_device_properties(handle.get())),
        planner(make_planner(CudnnPlans(properties_json), options,
                             [this](const ConvolutionCall& call, const std::vector<CudnnPlan>& plans) {
                               return fastest_plan(call, plans, handle.get(), *changes);
                             })),
        loader([this](const CudnnPlan& plan,
                      const ConvolutionCall& call) { return load_cudnn_plan(plan, call, handle.get()); },
               [this](const CudnnPlan& plan, const ConvolutionCall& call) {
                 return plan_cudnn_here(plan, call, handle.get());
               }) {}

  CudnnHandle handle;
  std::shared_ptr<MemoryChanges> changes;
  std::string properties_json;
  CudnnPlanner planner;
  ConvolutionLoader loader;
};

CudnnConvolutions::CudnnConvolutions(const CudaOptions& options, std::shared_ptr<MemoryChanges> changes)
    : parts_(std::make_unique<Parts>(options, std::move(changes))) {}
CudnnConvolutions::~CudnnConvolutions() = default;
CudnnConvolutions::CudnnConvolutions(CudnnConvolutions&&) noexcept = default;
CudnnConvolutions& CudnnConvolutions::operator=(CudnnConvolutions&&) noexcept = default;

ConvolutionPlanner& CudnnConvolutions::planner() { return parts_->planner; }

std::unique_ptr<Convolution> CudnnConvolutions::prepare(const ConvolutionCall& call) {
  return parts_->loader.load(parts_->planner.plan_to_run(call), call);
}

std::vector<std::string> CudnnConvolutions::notes() const {
  std::vector<std::string> notes = {parts_->loader.note(), parts_->planner.note()};
  std::erase(notes, "");
  return notes;
}

cudnnHandle_t CudnnConvolutions::handle() const { return parts_->handle.get(); }

const std::string& CudnnConvolutions::properties_json() const { return parts_->properties_json; }

}  // namespace trainer::cuda
