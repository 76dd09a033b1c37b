#include "cuda/kernels/batchnorm2d.h"
#include "cuda/ops/channel_place.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/row_shapes.h"
#include "engine/ops/batchnorm2d_over_ranks.h"

namespace trainer::cuda {

namespace {

/// Of a forward op; null: nothing is added.
const void* addend_of(const BatchNorm2dAttributes& attributes, const OperandAddresses& addresses) {
  return attributes.adds ? input(addresses, addend_position(attributes)) : nullptr;
}

}  // namespace

std::unique_ptr<Kernel> make_batchnorm2d_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<BatchNorm2dAttributes>(op), type = op.inputs[0].dtype,
                      shape = batchnorm2d_shape(op), place = ChannelPlace(op),
                      &stream = context.stream](const OperandAddresses& addresses) {
    const int sums = sums_position(attributes);
    place.copy_others(addresses, stream);
    batchnorm2d_forward(type,
                        {.x = input(addresses, 0),
                         .y = place.address(addresses),
                         .y_channels = place.range.row_channels,
                         .addend = addend_of(attributes, addresses),
                         .running_mean = modified_input<float>(addresses, 1),
                         .running_var = modified_input<float>(addresses, 2),
                         .weight = attributes.affine ? input<float>(addresses, 3) : nullptr,
                         .bias = attributes.affine ? input<float>(addresses, 4) : nullptr,
                         .sums = attributes.given_sums ? input<float>(addresses, sums) : nullptr,
                         .square_sums = attributes.given_sums ? input<float>(addresses, sums + 1) : nullptr,
                         .mean = output<float>(addresses, 1),
                         .rstd = output<float>(addresses, 2),
                         .workspace = addresses.workspace,
                         .eps = attributes.eps,
                         .momentum = attributes.momentum,
                         .relu = attributes.relu,
                         .ceiling = ceiling_of(attributes)},
                        shape, stream);
  });
}

std::unique_ptr<Kernel> make_batchnorm2d_normalize_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<BatchNorm2dAttributes>(op), type = op.inputs[0].dtype,
                      shape = batchnorm2d_shape(op), place = ChannelPlace(op),
                      &stream = context.stream](const OperandAddresses& addresses) {
    place.copy_others(addresses, stream);
    batchnorm2d_normalize(type,
                          {.x = input(addresses, 0),
                           .y = place.address(addresses),
                           .y_channels = place.range.row_channels,
                           .addend = addend_of(attributes, addresses),
                           .mean = input<float>(addresses, 1),
                           .rstd = input<float>(addresses, 2),
                           .weight = attributes.affine ? input<float>(addresses, 3) : nullptr,
                           .bias = attributes.affine ? input<float>(addresses, 4) : nullptr,
                           .relu = attributes.relu,
                           .ceiling = ceiling_of(attributes)},
                          shape, stream);
  });
}

std::unique_ptr<Kernel> make_batchnorm2d_inference_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<BatchNorm2dAttributes>(op), type = op.inputs[0].dtype,
                      shape = batchnorm2d_shape(op), place = ChannelPlace(op),
                      &stream = context.stream](const OperandAddresses& addresses) {
    place.copy_others(addresses, stream);
    batchnorm2d_inference(type,
                          {.x = input(addresses, 0),
                           .y = place.address(addresses),
                           .y_channels = place.range.row_channels,
                           .addend = addend_of(attributes, addresses),
                           .running_mean = input<float>(addresses, 1),
                           .running_var = input<float>(addresses, 2),
                           .weight = attributes.affine ? input<float>(addresses, 3) : nullptr,
                           .bias = attributes.affine ? input<float>(addresses, 4) : nullptr,
                           .eps = attributes.eps,
                           .relu = attributes.relu,
                           .ceiling = ceiling_of(attributes)},
                          shape, stream);
  });
}

std::unique_ptr<Kernel> make_batchnorm2d_inference_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<BatchNorm2dAttributes>(op), type = op.inputs[0].dtype,
                      shape = batchnorm2d_shape(op), &stream = context.stream](const OperandAddresses& addresses) {
    batchnorm2d_inference(type,
                          {.x = input(addresses, 0),
                           .y = output(addresses, 0),
                           .running_var = input<float>(addresses, 1),
                           .weight = attributes.affine ? input<float>(addresses, 2) : nullptr,
                           .eps = attributes.eps},
                          shape, stream);
  });
}

std::unique_ptr<Kernel> make_batchnorm2d_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<BatchNorm2dAttributes>(op), type = op.inputs[0].dtype,
                      shape = batchnorm2d_shape(op), &stream = context.stream](const OperandAddresses& addresses) {
    const bool affine = attributes.affine;
    batchnorm2d_backward(type,
                         {.dy = input(addresses, 0),
                          .x = input(addresses, 1),
                          .mean = input<float>(addresses, 2),
                          .rstd = input<float>(addresses, 3),
                          .weight = affine ? input<float>(addresses, 4) : nullptr,
                          .bias = affine && attributes.relu && !attributes.adds ? input<float>(addresses, 5) : nullptr,
                          .y = attributes.adds ? addresses.inputs.back() : nullptr,
                          .dx = output(addresses, 0),
                          .daddend = attributes.adds ? addresses.outputs.back() : nullptr,
                          .dweight = affine ? output<float>(addresses, 1) : nullptr,
                          .dbias = affine ? output<float>(addresses, 2) : nullptr,
                          .workspace = addresses.workspace,
                          .relu = attributes.relu,
                          .ceiling = ceiling_of(attributes)},
                         shape, stream);
  });
}

std::unique_ptr<Kernel> make_batchnorm2d_sums_kernel(const Op& op, CudaContext& context) {
  return make_kernel([type = op.inputs[0].dtype, shape = batchnorm2d_shape(op),
                      &stream = context.stream](const OperandAddresses& addresses) {
    batchnorm2d_sums(type,
                     {.x = input(addresses, 0), .sums = output<double>(addresses, 0), .workspace = addresses.workspace},
                     shape, stream);
  });
}

std::unique_ptr<Kernel> make_batchnorm2d_statistics_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<BatchNorm2dAttributes>(op), channels = channels_of_sums(op.inputs[0]),
                      &stream = context.stream](const OperandAddresses& addresses) {
    batchnorm2d_statistics({.sums = input<double>(addresses, 0),
                            .running_mean = modified_input<float>(addresses, 1),
                            .running_var = modified_input<float>(addresses, 2),
                            .mean = output<float>(addresses, 0),
                            .rstd = output<float>(addresses, 1),
                            .eps = attributes.eps,
                            .momentum = attributes.momentum},
                           channels, stream);
  });
}

std::unique_ptr<Kernel> make_batchnorm2d_gradient_sums_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<BatchNorm2dAttributes>(op), type = op.inputs[0].dtype,
                      shape = batchnorm2d_shape(op), &stream = context.stream](const OperandAddresses& addresses) {
    const bool affine = attributes.affine, has_line = affine && attributes.relu;
    batchnorm2d_gradient_sums(type,
                              {.dy = input(addresses, 0),
                               .x = input(addresses, 1),
                               .mean = input<float>(addresses, 2),
                               .rstd = input<float>(addresses, 3),
                               .weight = has_line ? input<float>(addresses, 4) : nullptr,
                               .bias = has_line ? input<float>(addresses, 5) : nullptr,
                               .sums = output<double>(addresses, 0),
                               .dweight = affine ? output<float>(addresses, 1) : nullptr,
                               .dbias = affine ? output<float>(addresses, 2) : nullptr,
                               .workspace = addresses.workspace,
                               .relu = attributes.relu,
                               .ceiling = ceiling_of(attributes)},
                              shape, stream);
  });
}

std::unique_ptr<Kernel> make_batchnorm2d_normalize_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<BatchNorm2dAttributes>(op), type = op.inputs[0].dtype,
                      shape = batchnorm2d_shape(op), &stream = context.stream](const OperandAddresses& addresses) {
    const bool affine = attributes.affine;
    batchnorm2d_normalize_backward(type,
                                   {.dy = input(addresses, 0),
                                    .x = input(addresses, 1),
                                    .mean = input<float>(addresses, 2),
                                    .rstd = input<float>(addresses, 3),
                                    .weight = affine ? input<float>(addresses, 5) : nullptr,
                                    .bias = affine && attributes.relu ? input<float>(addresses, 6) : nullptr,
                                    .sums = input<double>(addresses, 4),
                                    .dx = output(addresses, 0),
                                    .workspace = addresses.workspace,
                                    .relu = attributes.relu,
                                    .ceiling = ceiling_of(attributes)},
                                   shape, stream);
  });
}

}  // namespace trainer::cuda
