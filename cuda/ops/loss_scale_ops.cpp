#include "cuda/kernels/loss_scale.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_scale_gradient_kernel(const Op& op, CudaContext& context) {
  return make_kernel([count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    scale_gradient(input<float>(addresses, 0), input<double>(addresses, 1), output<float>(addresses, 0), count, stream);
  });
}

std::unique_ptr<Kernel> make_update_loss_scale_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<LossScaleAttributes>(op),
                      &stream = context.stream](const OperandAddresses& addresses) {
    update_loss_scale(input<double>(addresses, 0), input<float>(addresses, 1), attributes,
                      modified_input<double>(addresses, 2), stream);
  });
}

}  // namespace trainer::cuda
