#include "engine/ops/elementwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/loss_statistics.h"

namespace trainer {

std::int64_t flops_product(std::int64_t a, std::int64_t b, std::int64_t c) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_mul_overflow(product, c, &product)) return most;
  return std::min(product, most);
}

void require_image(const TensorType& x, const char* layer) {
  if (x.shape.rank() == 4) return;
  throw ShapeError(fmt::format("{} takes images of shape (batch, height, width, channels); its input is {}", layer,
                               x.shape.to_string()));
}

Op numeric_loss_op(OpKind kind, std::string_view loss, const TensorType& prediction, const TensorType& targets,
                   const LossTerm& term) {
  if (targets.dtype != DType::f32) {
    throw ShapeError(fmt::format("{} needs numbers as targets; the data has classes", loss));
  }
  if (prediction.shape != targets.shape) {
    const char* const advice = prediction.shape.rank() > 2 && targets.shape.rank() == 2
                                   ? ": put flatten or global_avgpool before the last layer"
                                   : "";
    throw ShapeError(fmt::format("the model's output is {} and the targets are {}; {} needs them alike{}",
                                 prediction.shape.to_string(), targets.shape.to_string(), loss, advice));
  }
  return {kind, term, {prediction, targets, loss_statistics_type(term.count)}, {}};
}

Op numeric_loss_backward_op(OpKind kind, const Op& loss) {
  return {kind, loss.attributes, {loss.inputs[0], loss.inputs[1]}, {loss.inputs[0]}};
}

}  // namespace trainer
