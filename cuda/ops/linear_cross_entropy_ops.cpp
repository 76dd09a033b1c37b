#include "cuda/ops/kernels.h"
#include "engine/device/loss_chunk_runner.h"

namespace trainer::cuda {

namespace {

class LinearCrossEntropyKernel final : public Kernel {
 public:
  LinearCrossEntropyKernel(const Op& op, const CudaContext& context)
      : device_(context),
        context_(with_alignment(context, alignment_of_chunks(op))),
        runner_(
            op, [&](const Op& step) { return make_kernel_of(step, context_); },
            [&](const Op& step) {
              return compute_workspace_bytes(step, {.tf32 = context.tf32,
                                                    .matmuls = context.library->matmul_planner(),
                                                    .matrix_alignment = context_.matrix_alignment,
                                                    .sums_in_order = context.sums.in_order});
            }) {}

  void run(const OperandAddresses& addresses) override {
    context_.stream = device_.stream;
    context_.links = device_.links;
    runner_.run(addresses,
                [](std::unique_ptr<Kernel>& kernel, const OperandAddresses& of_step) { kernel->run(of_step); });
  }

 private:
  static CudaContext with_alignment(CudaContext context, std::int64_t alignment) {
    context.matrix_alignment = alignment;
    return context;
  }

  const CudaContext& device_;
  CudaContext context_;  ///< of the products
  LossChunkRunner<std::unique_ptr<Kernel>> runner_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_cross_entropy_kernel(const Op& op, CudaContext& context) {
  return std::make_unique<LinearCrossEntropyKernel>(op, context);
}
std::unique_ptr<Kernel> make_linear_cross_entropy_with_gradient_kernel(const Op& op, CudaContext& context) {
  return std::make_unique<LinearCrossEntropyKernel>(op, context);
}

}  // namespace trainer::cuda
