#include "engine/cpu/kernels.h"
#include "engine/device/loss_chunk_runner.h"

namespace trainer {

namespace {

class LinearCrossEntropyKernel final : public CpuKernel {
 public:
  LinearCrossEntropyKernel(const Op& op, CpuContext& context)
      : runner_(
            op, [&](const Op& step) { return make_kernel_of(step, context); },
            [&](const Op& step) { return compute_workspace_bytes(step, context); }) {}

  void run(const OperandAddresses& addresses, const StepScalars& scalars) override {
    runner_.run(addresses, [&](std::unique_ptr<CpuKernel>& kernel, const OperandAddresses& of_step) {
      kernel->run(of_step, scalars);
    });
  }

 private:
  LossChunkRunner<std::unique_ptr<CpuKernel>> runner_;
};

std::int64_t linear_cross_entropy_workspace_bytes(const Op& op, CpuContext& context) {
  return loss_chunks_workspace_bytes(op, [&](const Op& step) { return compute_workspace_bytes(step, context); });
}

std::unique_ptr<CpuKernel> make_linear_cross_entropy_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<LinearCrossEntropyKernel>(op, context);
}
std::unique_ptr<CpuKernel> make_linear_cross_entropy_with_gradient_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<LinearCrossEntropyKernel>(op, context);
}

}  // namespace

const CpuOp linear_cross_entropy_on_cpu = {make_linear_cross_entropy_kernel, takes_16_bit,
                                           linear_cross_entropy_workspace_bytes};
const CpuOp linear_cross_entropy_with_gradient_on_cpu = {make_linear_cross_entropy_with_gradient_kernel, takes_16_bit,
                                                         linear_cross_entropy_workspace_bytes};

}  // namespace trainer
