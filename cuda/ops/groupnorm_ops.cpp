#include "cuda/kernels/groupnorm.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/row_shapes.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_groupnorm_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<GroupNormAttributes>(op), type = op.inputs[0].dtype,
                      shape = groupnorm_shape(op), &stream = context.stream](const OperandAddresses& addresses) {
    groupnorm_forward(type,
                      {.x = input(addresses, 0),
                       .y = output(addresses, 0),
                       .weight = attributes.affine ? input<float>(addresses, 1) : nullptr,
                       .bias = attributes.affine ? input<float>(addresses, 2) : nullptr,
                       .mean = output<float>(addresses, 1),
                       .rstd = output<float>(addresses, 2),
                       .workspace = addresses.workspace,
                       .eps = attributes.eps,
                       .relu = attributes.relu},
                      shape, stream);
  });
}

std::unique_ptr<Kernel> make_groupnorm_normalize_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<GroupNormAttributes>(op), type = op.inputs[0].dtype,
                      shape = groupnorm_shape(op), &stream = context.stream](const OperandAddresses& addresses) {
    groupnorm_normalize(type,
                        {.x = input(addresses, 0),
                         .y = output(addresses, 0),
                         .mean = input<float>(addresses, 1),
                         .rstd = input<float>(addresses, 2),
                         .weight = attributes.affine ? input<float>(addresses, 3) : nullptr,
                         .bias = attributes.affine ? input<float>(addresses, 4) : nullptr,
                         .relu = attributes.relu},
                        shape, stream);
  });
}

std::unique_ptr<Kernel> make_groupnorm_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<GroupNormAttributes>(op), type = op.inputs[0].dtype,
                      shape = groupnorm_shape(op), &stream = context.stream](const OperandAddresses& addresses) {
    const bool affine = attributes.affine;
    groupnorm_backward(type,
                       {.dy = input(addresses, 0),
                        .x = input(addresses, 1),
                        .mean = input<float>(addresses, 2),
                        .rstd = input<float>(addresses, 3),
                        .weight = affine ? input<float>(addresses, 4) : nullptr,
                        .bias = affine && attributes.relu ? input<float>(addresses, 5) : nullptr,
                        .dx = output(addresses, 0),
                        .dweight = affine ? output<float>(addresses, 1) : nullptr,
                        .dbias = affine ? output<float>(addresses, 2) : nullptr,
                        .workspace = addresses.workspace,
                        .relu = attributes.relu},
                       shape, stream);
  });
}

}  // namespace trainer::cuda
