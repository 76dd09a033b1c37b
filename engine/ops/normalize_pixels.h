#pragma once

#include <vector>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// y = pixel · scale[c] + offset[c]; with mean m and deviation s: scale = 1 / (255 s), offset = −m / s.
struct NormalizePixelsAttributes {
  std::vector<float> scale, offset;  ///< one for each channel
  friend bool operator==(const NormalizePixelsAttributes&, const NormalizePixelsAttributes&) = default;
};

/// inputs: pixels u8 (N, H, W, C)[, mixed samples where `mixes`: Note [Mixed batches] in mixed_sample.h]; outputs: f32
/// of the shape of the pixels. No gradient.
Op normalize_pixels_op(const TensorType& pixels, NormalizePixelsAttributes attributes, bool mixes = false);
bool mixes_pixels(const Op& normalize_pixels);

}  // namespace trainer
