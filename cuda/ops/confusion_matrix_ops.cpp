#include "cuda/kernels/confusion_matrix.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_confusion_matrix_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = confusion_shape_of(op),
                      ignored = attributes_of<ConfusionMatrixAttributes>(op).ignore_index,
                      &stream = context.stream](const OperandAddresses& addresses) {
    confusion_matrix({.logits = input<float>(addresses, 0),
                      .targets = input(addresses, 1),
                      .counts = modified_input<std::int64_t>(addresses, 2),
                      .rows = shape.rows,
                      .channels = shape.channels,
                      .num_classes = shape.num_classes,
                      .has_classes = shape.has_classes,
                      .ignored = ignored},
                     stream);
  });
}

}  // namespace trainer::cuda
