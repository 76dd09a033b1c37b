#include "engine/ops/normalize_pixels.h"

#include <utility>

#include "engine/ops/elementwise.h"

namespace trainer {

Op normalize_pixels_op(const TensorType& pixels, NormalizePixelsAttributes attributes) {
  require_internal(pixels.dtype == DType::u8, "pixels are bytes");
  return {OpKind::normalize_pixels, std::move(attributes), {pixels}, {{DType::f32, pixels.shape}}};
}

const OpDefinition normalize_pixels_definition = {
    .flops = flops_per_input_element<2>, .precision = Precision::product, .is_cheap = true};

}  // namespace trainer
