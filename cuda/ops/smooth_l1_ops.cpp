#include "cuda/kernels/numeric_loss.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_smooth_l1_kernel(const Op& op, CudaContext& context) {
  return make_kernel([term = loss_term_of(op).index, beta = attributes_of<SmoothL1Attributes>(op).beta,
                      type = op.inputs[0].dtype, count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    smooth_l1_forward(type, beta,
                      {.prediction = input(addresses, 0),
                       .targets = input(addresses, 1),
                       .statistics = modified_input<double>(addresses, 2),
                       .workspace = addresses.workspace,
                       .term = term},
                      count, stream);
  });
}

std::unique_ptr<Kernel> make_smooth_l1_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([term = loss_term_of(op).index, beta = attributes_of<SmoothL1Attributes>(op).beta,
                      type = op.inputs[0].dtype, count = op.inputs[0].num_elements(), scalars = context.scalars,
                      &stream = context.stream](const OperandAddresses& addresses) {
    smooth_l1_backward(type, beta,
                       {.prediction = input(addresses, 0),
                        .targets = input(addresses, 1),
                        .gradients = output(addresses, 0),
                        .scalars = scalars,
                        .term = term},
                       count, stream);
  });
}

}  // namespace trainer::cuda
