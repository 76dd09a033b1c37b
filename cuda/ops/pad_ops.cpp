#include "cuda/kernels/pad.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/resized_shape_of.h"

namespace trainer::cuda {

namespace {

PadOptions pad_options(const Op& op) {
  const auto& attributes = attributes_of<PadAttributes>(op);
  PadOptions options{.before = {attributes.size[0], attributes.size[2]}, .value = static_cast<float>(attributes.value)};
  if (attributes.mode == PadMode::reflect) options.border = PadBorder::reflection;
  if (attributes.mode == PadMode::replicate) options.border = PadBorder::edge;
  return options;
}

}  // namespace

std::unique_ptr<Kernel> make_pad_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = resized_shape_of(op.inputs[0].shape, op.outputs[0].shape), type = op.inputs[0].dtype,
                      options = pad_options(op), &stream = context.stream](const OperandAddresses& addresses) {
    pad_forward(type, input(addresses, 0), output(addresses, 0), shape, options, stream);
  });
}

std::unique_ptr<Kernel> make_pad_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = resized_shape_of(op.outputs[0].shape, op.inputs[0].shape), type = op.inputs[0].dtype,
                      options = pad_options(op), &stream = context.stream](const OperandAddresses& addresses) {
    pad_backward(type, input(addresses, 0), output(addresses, 0), shape, options, stream);
  });
}

}  // namespace trainer::cuda
