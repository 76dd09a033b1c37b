#include "cuda/kernels/class_parts.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {
namespace {

ClassPartTask class_part_task(const Op& op) {
  const auto& attributes = attributes_of<ClassPartAttributes>(op);
  return {.rows = op.inputs[1].num_elements(),
          .classes = op.inputs[0].shape[-1],
          .first_class = attributes.first_class,
          .all_classes = attributes.all_classes,
          .ranks = static_cast<int>(attributes.ranks.count),
          .place = static_cast<int>(attributes.place),
          .ignored = attributes.ignore_index,
          .smoothing = attributes.label_smoothing};
}

ClassPartTask over_logits(ClassPartTask task, const OperandAddresses& addresses) {
  task.logits = input<float>(addresses, 0);
  task.targets = input<std::int32_t>(addresses, 1);
  return task;
}

}  // namespace

std::unique_ptr<Kernel> make_class_statistics_kernel(const Op& op, CudaContext& context) {
  return make_kernel([task = class_part_task(op), &stream = context.stream](const OperandAddresses& addresses) {
    class_statistics(over_logits(task, addresses), output<float>(addresses, 0), stream);
  });
}

std::unique_ptr<Kernel> make_class_order_kernel(const Op& op, CudaContext& context) {
  return make_kernel([task = class_part_task(op), &stream = context.stream](const OperandAddresses& addresses) {
    class_order(over_logits(task, addresses), input<float>(addresses, 2), output<float>(addresses, 0), stream);
  });
}

std::unique_ptr<Kernel> make_cross_entropy_of_parts_kernel(const Op& op, CudaContext& context) {
  return make_kernel([task = class_part_task(op), &stream = context.stream](const OperandAddresses& addresses) {
    cross_entropy_of_parts(over_logits(task, addresses), input<float>(addresses, 2), input<float>(addresses, 3),
                           modified_input<double>(addresses, 4), addresses.workspace, stream);
  });
}

std::unique_ptr<Kernel> make_cross_entropy_of_parts_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([task = class_part_task(op), scalars = context.scalars,
                      &stream = context.stream](const OperandAddresses& addresses) {
    cross_entropy_of_parts_backward(over_logits(task, addresses), input<float>(addresses, 2), scalars,
                                    output<float>(addresses, 0), stream);
  });
}

}  // namespace trainer::cuda
