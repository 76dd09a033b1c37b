#include "cuda/kernels/activation.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_activation_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<ActivationAttributes>(op), type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    activation_forward(type, attributes, input(addresses, 0), output(addresses, 0), count, stream);
  });
}

std::unique_ptr<Kernel> make_activation_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<ActivationAttributes>(op), type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    activation_backward(type, attributes, input(addresses, 0), input(addresses, 1), output(addresses, 0), count,
                        stream);
  });
}

}  // namespace trainer::cuda
