#include "cuda/kernels/prelu.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/row_shapes.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_prelu_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = prelu_shape(op), type = op.inputs[0].dtype,
                      &stream = context.stream](const OperandAddresses& addresses) {
    prelu_forward(type, input(addresses, 0), input<float>(addresses, 1), output(addresses, 0), shape, stream);
  });
}

std::unique_ptr<Kernel> make_prelu_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = prelu_shape(op), type = op.inputs[0].dtype,
                      &stream = context.stream](const OperandAddresses& addresses) {
    prelu_backward(type, input(addresses, 0), input(addresses, 1), input<float>(addresses, 2), output(addresses, 0),
                   output<float>(addresses, 1), addresses.workspace, shape, stream);
  });
}

}  // namespace trainer::cuda
