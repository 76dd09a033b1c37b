#include "cuda/kernels/multiply.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_multiply_kernel(const Op& op, CudaContext& context) {
  const TensorType& x = op.inputs[0];
  if (!is_gate(x, op.inputs[1]))
    return make_kernel(
        [type = x.dtype, count = x.num_elements(), &stream = context.stream](const OperandAddresses& addresses) {
          multiply(type, input(addresses, 0), input(addresses, 1), output(addresses, 0), count, stream);
        });
  return make_kernel([x, &stream = context.stream](const OperandAddresses& addresses) {
    multiply_gate(x.dtype, input(addresses, 0), input(addresses, 1), output(addresses, 0), x.shape[0],
                  x.shape[1] * x.shape[2], x.shape[3], stream);
  });
}

std::unique_ptr<Kernel> make_multiply_backward_gate_kernel(const Op& op, CudaContext& context) {
  return make_kernel([x = op.inputs[1], &stream = context.stream](const OperandAddresses& addresses) {
    multiply_backward_gate(x.dtype, input(addresses, 0), input(addresses, 1), output(addresses, 0), x.shape[0],
                           x.shape[1] * x.shape[2], x.shape[3], stream);
  });
}

}  // namespace trainer::cuda
