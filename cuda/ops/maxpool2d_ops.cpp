#include "cuda/kernels/maxpool2d.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/pool2d_shape_of.h"

namespace trainer::cuda {

static_assert(no_position == trainer::no_position);

std::unique_ptr<Kernel> make_maxpool2d_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  return make_kernel([shape = pool2d_shape_of(attributes, op.inputs[0].shape, op.outputs[0].shape),
                      type = op.inputs[0].dtype, keeps_indices = op.outputs.size() > 1, relu = attributes.relu,
                      &stream = context.stream](const OperandAddresses& addresses) {
    auto* const indices = keeps_indices ? output<std::uint8_t>(addresses, 1) : nullptr;
    maxpool2d_forward(type, input(addresses, 0), output(addresses, 0), indices, relu, shape, stream);
  });
}

std::unique_ptr<Kernel> make_maxpool2d_backward_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  return make_kernel([shape = pool2d_shape_of(attributes, op.outputs[0].shape, op.inputs[0].shape),
                      type = op.inputs[0].dtype, &stream = context.stream](const OperandAddresses& addresses) {
    maxpool2d_backward(type, input(addresses, 0), input<std::uint8_t>(addresses, 1), output(addresses, 0), shape,
                       stream);
  });
}

}  // namespace trainer::cuda
