#include "cuda/kernels/avgpool2d.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/pool2d_shape_of.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_avgpool2d_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  return make_kernel([shape = pool2d_shape_of(attributes, op.inputs[0].shape, op.outputs[0].shape),
                      type = op.inputs[0].dtype, count_include_pad = attributes.count_include_pad,
                      &stream = context.stream](const OperandAddresses& addresses) {
    avgpool2d_forward(type, input(addresses, 0), output(addresses, 0), shape, count_include_pad, stream);
  });
}

std::unique_ptr<Kernel> make_avgpool2d_backward_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  return make_kernel([shape = pool2d_shape_of(attributes, op.outputs[0].shape, op.inputs[0].shape),
                      type = op.inputs[0].dtype, count_include_pad = attributes.count_include_pad,
                      &stream = context.stream](const OperandAddresses& addresses) {
    avgpool2d_backward(type, input(addresses, 0), output(addresses, 0), shape, count_include_pad, stream);
  });
}

}  // namespace trainer::cuda
