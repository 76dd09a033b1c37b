#include "cuda/kernels/upsample.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/resized_shape_of.h"

namespace trainer::cuda {

namespace {

UpsampleOptions upsample_options(const Op& op) {
  const auto& attributes = attributes_of<UpsampleAttributes>(op);
  return {.bilinear = attributes.mode == Interpolation::bilinear,
          .align_corners = attributes.align_corners,
          .scale = attributes.scale};
}

}  // namespace

std::unique_ptr<Kernel> make_upsample_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = resized_shape_of(op.inputs[0].shape, op.outputs[0].shape), type = op.inputs[0].dtype,
                      options = upsample_options(op), &stream = context.stream](const OperandAddresses& addresses) {
    upsample_forward(type, input(addresses, 0), output(addresses, 0), shape, options, stream);
  });
}

std::unique_ptr<Kernel> make_upsample_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = resized_shape_of(op.outputs[0].shape, op.inputs[0].shape), type = op.inputs[0].dtype,
                      options = upsample_options(op), &stream = context.stream](const OperandAddresses& addresses) {
    upsample_backward(type, input(addresses, 0), output(addresses, 0), shape, options, stream);
  });
}

}  // namespace trainer::cuda
