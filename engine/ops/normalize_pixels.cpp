#include "engine/ops/normalize_pixels.h"

#include <utility>

#include "engine/ops/elementwise.h"
#include "engine/ops/mixed_sample.h"

namespace trainer {

Op normalize_pixels_op(const TensorType& pixels, NormalizePixelsAttributes attributes, bool mixes) {
  require_internal(pixels.dtype == DType::u8, "pixels are bytes");
  Op op{OpKind::normalize_pixels, std::move(attributes), {pixels}, {{DType::f32, pixels.shape}}};
  if (mixes) op.inputs.push_back(mixed_samples_type(pixels.shape[0]));
  return op;
}

bool mixes_pixels(const Op& normalize_pixels) { return normalize_pixels.inputs.size() > 1; }

const OpDefinition normalize_pixels_definition = {
    .flops = flops_per_input_element<2>, .precision = Precision::product, .is_cheap = true};

}  // namespace trainer
