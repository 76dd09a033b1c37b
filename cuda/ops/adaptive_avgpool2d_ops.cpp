#include "cuda/kernels/adaptive_avgpool2d.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/resized_shape_of.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_adaptive_avgpool2d_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = resized_shape_of(op.inputs[0].shape, op.outputs[0].shape), type = op.inputs[0].dtype,
                      &stream = context.stream](const OperandAddresses& addresses) {
    adaptive_avgpool2d_forward(type, input(addresses, 0), output(addresses, 0), shape, stream);
  });
}

std::unique_ptr<Kernel> make_adaptive_avgpool2d_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = resized_shape_of(op.outputs[0].shape, op.inputs[0].shape), type = op.inputs[0].dtype,
                      &stream = context.stream](const OperandAddresses& addresses) {
    adaptive_avgpool2d_backward(type, input(addresses, 0), output(addresses, 0), shape, stream);
  });
}

}  // namespace trainer::cuda
