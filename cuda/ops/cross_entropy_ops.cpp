#include "cuda/kernels/cross_entropy.h"

#include "cuda/ops/cross_entropy_shape_of.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

/// The three ops are one launch with statistics (input 2), gradients (output 0) or both.
std::unique_ptr<Kernel> make_cross_entropy(const Op& op, CudaContext& context, bool has_statistics,
                                           bool has_gradients) {
  const auto& attributes = attributes_of<CrossEntropyAttributes>(op);
  const CrossEntropyShape shape = cross_entropy_shape_of(op);
  require_internal(
      attributes.class_weights.empty() || static_cast<std::int64_t>(attributes.class_weights.size()) == shape.classes,
      "there is one class weight a class");
  return make_kernel([attributes, shape, has_statistics, has_gradients, type = op.inputs[0].dtype,
                      scalars = context.scalars, &stream = context.stream](const OperandAddresses& addresses) {
    cross_entropy(type,
                  {.logits = input(addresses, 0),
                   .targets = input<std::int32_t>(addresses, 1),
                   .statistics = has_statistics ? modified_input<double>(addresses, 2) : nullptr,
                   .mixing = attributes.mixed ? input<MixedSample>(addresses, has_statistics ? 3 : 2) : nullptr,
                   .gradients = has_gradients ? output(addresses, 0) : nullptr,
                   .scalars = scalars,
                   .workspace = addresses.workspace,
                   .term = attributes.term.index},
                  shape,
                  {.label_smoothing = attributes.label_smoothing,
                   .class_weights = attributes.class_weights,
                   .ignore_index = attributes.ignore_index},
                  stream);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_cross_entropy_kernel(const Op& op, CudaContext& context) {
  return make_cross_entropy(op, context, true, false);
}
std::unique_ptr<Kernel> make_cross_entropy_backward_kernel(const Op& op, CudaContext& context) {
  return make_cross_entropy(op, context, false, true);
}
std::unique_ptr<Kernel> make_cross_entropy_with_gradient_kernel(const Op& op, CudaContext& context) {
  return make_cross_entropy(op, context, true, true);
}

}  // namespace trainer::cuda
