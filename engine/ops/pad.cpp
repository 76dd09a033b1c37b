#include "engine/ops/pad.h"

#include <fmt/format.h>

#include "engine/ops/elementwise.h"

namespace trainer {

Op pad_op(const TensorType& x, const PadAttributes& attributes) {
  require_image(x, "pad");
  const auto& [top, bottom, left, right] = attributes.size;
  const bool too_far = top >= x.shape[1] || bottom >= x.shape[1] || left >= x.shape[2] || right >= x.shape[2];
  if (attributes.mode == PadMode::reflect && too_far)
    throw ShapeError(
        fmt::format("pad cannot mirror {} and {} rows and {} and {} columns of its input {}: it has to "
                    "have more of them than each side adds",
                    top, bottom, left, right, x.shape.to_string()));
  const Shape y{x.shape[0], x.shape[1] + top + bottom, x.shape[2] + left + right, x.shape[3]};
  return {OpKind::pad, attributes, {x}, {{x.dtype, y}}};
}

Op pad_backward_op(const Op& pad) { return {OpKind::pad_backward, pad.attributes, pad.outputs, pad.inputs}; }

namespace {

std::int64_t pad_backward_flops(const Op& op) {
  const bool adds = attributes_of<PadAttributes>(op).mode != PadMode::zeros;
  return adds ? op.inputs[0].num_elements() : 0;
}

void differentiate_pad(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(pad_backward_op(scope.op()), {scope.output_gradient()})[0]);
}

}  // namespace

const OpDefinition pad_definition = {.flops = flops_per_input_element<0>,
                                     .differentiate = differentiate_pad,
                                     .precision = Precision::follows,
                                     .is_cheap = true};
const OpDefinition pad_backward_definition = {.flops = pad_backward_flops};

}  // namespace trainer
