#include "cuda/kernels/numeric_loss.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_bce_with_logits_kernel(const Op& op, CudaContext& context) {
  return make_kernel([term = loss_term_of(op).index, type = op.inputs[0].dtype, count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    bce_with_logits_forward(type,
                            {.prediction = input(addresses, 0),
                             .targets = input(addresses, 1),
                             .statistics = modified_input<double>(addresses, 2),
                             .workspace = addresses.workspace,
                             .term = term},
                            count, stream);
  });
}

std::unique_ptr<Kernel> make_bce_with_logits_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([term = loss_term_of(op).index, type = op.inputs[0].dtype, count = op.inputs[0].num_elements(),
                      scalars = context.scalars, &stream = context.stream](const OperandAddresses& addresses) {
    bce_with_logits_backward(type,
                             {.prediction = input(addresses, 0),
                              .targets = input(addresses, 1),
                              .gradients = output(addresses, 0),
                              .scalars = scalars,
                              .term = term},
                             count, stream);
  });
}

}  // namespace trainer::cuda
