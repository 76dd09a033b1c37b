#include "cuda/device/module.h"

#include "cuda/device/cuda_device.h"
#include "cuda/device/cuda_facts.h"
#include "cuda/library/cublaslt_matmul.h"
#include "cuda/library/cudnn_attention.h"
#include "cuda/library/cudnn_convolution.h"

namespace trainer::cuda {

namespace {

std::unique_ptr<Device> make_device(int index, const CudaOptions& options) { return make_cuda_device(index, options); }

constexpr Module module = {.facts = gather_facts,
                           .make_device = make_device,
                           .make_planner = make_cudnn_planner,
                           .make_attention_planner = make_cudnn_attention_planner,
                           .make_matmul_planner = make_matmul_planner};

}  // namespace

}  // namespace trainer::cuda

// The one symbol that may be seen: the rest of the module is hidden from the program, which has folders of the same
// names.
extern "C" __attribute__((visibility("default"))) const trainer::cuda::Module* trainer_cuda_module() {
  return &trainer::cuda::module;
}
