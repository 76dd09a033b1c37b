#include "engine/ops/adaptive_avgpool2d.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "engine/ops/elementwise.h"

namespace trainer {

Op adaptive_avgpool2d_op(const TensorType& x, const std::array<std::int64_t, 2>& size) {
  require_image(x, "adaptive_avgpool2d");
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (int axis = 0; axis < 2; ++axis) {
    if (size[axis] > most / x.shape[1 + axis])
      throw ShapeError(
          fmt::format("adaptive_avgpool2d cannot make {}×{} pixels of its input {}: along each axis the "
                      "two sizes multiplied must be below 2^31",
                      size[0], size[1], x.shape.to_string()));
  }
  const Shape y{x.shape[0], size[0], size[1], x.shape[3]};
  return {OpKind::adaptive_avgpool2d, std::monostate{}, {x}, {{x.dtype, y}}};
}

Op adaptive_avgpool2d_backward_op(const Op& adaptive_avgpool2d) {
  return {OpKind::adaptive_avgpool2d_backward, std::monostate{}, adaptive_avgpool2d.outputs, adaptive_avgpool2d.inputs};
}

namespace {

/// What the windows of one axis have together: neighbours share an element wherever the line between them falls into
/// one.
std::int64_t covered(std::int64_t in, std::int64_t out) { return in + out - std::gcd(in, out); }

std::int64_t adaptive_avgpool2d_flops(const Op& op) {
  const bool is_forward = op.kind == OpKind::adaptive_avgpool2d;
  const Shape& x = is_forward ? op.inputs[0].shape : op.outputs[0].shape;
  const Shape& y = is_forward ? op.outputs[0].shape : op.inputs[0].shape;
  return flops_product(covered(x[1], y[1]), covered(x[2], y[2]), x[0] * x[3]);
}

void differentiate_adaptive_avgpool2d(GradientScope& scope) {
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(adaptive_avgpool2d_backward_op(scope.op()), {scope.output_gradient()})[0]);
}

}  // namespace

const OpDefinition adaptive_avgpool2d_definition = {.flops = adaptive_avgpool2d_flops,
                                                    .differentiate = differentiate_adaptive_avgpool2d,
                                                    .precision = Precision::follows,
                                                    .is_cheap = true};
const OpDefinition adaptive_avgpool2d_backward_definition = {.flops = adaptive_avgpool2d_flops};

}  // namespace trainer
