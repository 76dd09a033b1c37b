#include "cuda/kernels/layernorm.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/row_shapes.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_layernorm_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<LayerNormAttributes>(op), type = op.inputs[0].dtype,
                      shape = layernorm_shape(op), &stream = context.stream](const OperandAddresses& addresses) {
    layernorm_forward(type,
                      {.x = input(addresses, 0),
                       .y = output(addresses, 0),
                       .addend = attributes.adds ? addresses.inputs.back() : nullptr,
                       .sum = attributes.adds ? addresses.outputs.back() : nullptr,
                       .weight = attributes.affine ? input<float>(addresses, 1) : nullptr,
                       .bias = attributes.affine && attributes.centres ? input<float>(addresses, 2) : nullptr,
                       .mean = attributes.centres ? output<float>(addresses, 1) : nullptr,
                       .rstd = output<float>(addresses, layernorm_places(attributes).rstd),
                       .eps = attributes.eps},
                      shape, stream);
  });
}

std::unique_ptr<Kernel> make_layernorm_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<LayerNormAttributes>(op), type = op.inputs[0].dtype,
                      shape = layernorm_shape(op), &stream = context.stream](const OperandAddresses& addresses) {
    const bool affine = attributes.affine, centres = attributes.centres;
    const std::size_t rstd = layernorm_places(attributes).backward_rstd;
    layernorm_backward(type,
                       {.dy = input(addresses, 0),
                        .x = input(addresses, 1),
                        .mean = centres ? input<float>(addresses, 2) : nullptr,
                        .rstd = input<float>(addresses, rstd),
                        .weight = affine ? input<float>(addresses, rstd + 1) : nullptr,
                        .added_gradient = attributes.adds ? addresses.inputs.back() : nullptr,
                        .dx = output(addresses, 0),
                        .dweight = affine ? output<float>(addresses, 1) : nullptr,
                        .dbias = affine && centres ? output<float>(addresses, 2) : nullptr,
                        .workspace = addresses.workspace},
                       shape, stream);
  });
}

}  // namespace trainer::cuda
