#include "cuda/kernels/dice.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

DiceTask dice_task(const Op& op) {
  const DiceShape shape = dice_shape_of(op);
  const auto& attributes = attributes_of<DiceAttributes>(op);
  return {.rows = shape.rows,
          .channels = shape.channels,
          .batch = shape.batch,
          .has_classes = shape.has_classes,
          .is_softmax = shape.is_softmax(),
          .ignored = attributes.ignore_index,
          .smooth = attributes.smooth,
          .term = attributes.term.index};
}

/// Over the logits and targets that come first among the inputs.
DiceTask over(DiceTask task, const OperandAddresses& addresses) {
  task.logits = input<float>(addresses, 0);
  task.targets = input(addresses, 1);
  return task;
}

}  // namespace

std::unique_ptr<Kernel> make_dice_sums_kernel(const Op& op, CudaContext& context) {
  return make_kernel([task = dice_task(op), &stream = context.stream](const OperandAddresses& addresses) {
    dice_sums(over(task, addresses), output<double>(addresses, 0), addresses.workspace, stream);
  });
}

std::unique_ptr<Kernel> make_dice_kernel(const Op& op, CudaContext& context) {
  return make_kernel([task = dice_task(op), &stream = context.stream](const OperandAddresses& addresses) {
    dice_loss(over(task, addresses), input<double>(addresses, 2), modified_input<double>(addresses, 3), stream);
  });
}

std::unique_ptr<Kernel> make_dice_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel(
      [task = dice_task(op), scalars = context.scalars, &stream = context.stream](const OperandAddresses& addresses) {
        dice_backward(over(task, addresses), input<double>(addresses, 2), scalars, output<float>(addresses, 0),
                      addresses.workspace, stream);
      });
}

}  // namespace trainer::cuda
