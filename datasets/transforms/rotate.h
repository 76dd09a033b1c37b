#pragma once

#include <cstdint>

#include "datasets/image/image.h"
#include "datasets/transforms/transform_step.h"

namespace trainer {

/// Fills `target`, of the size of `source`, with `source` turned counter-clockwise about its centre, as
/// torchvision.transforms.v2.functional.rotate does with bytes and a fill: places are computed in single precision; of
/// bilinear pixels that lie partly outside the share inside counts twice. `interpolation` is nearest or bilinear.
void rotate(double degrees, Resampling interpolation, std::uint8_t fill, const Image& source, Image& target);

}  // namespace trainer
