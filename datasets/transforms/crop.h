#pragma once

#include <cstdint>

#include "datasets/image/image.h"
#include "datasets/transforms/flip.h"
#include "datasets/transforms/transform_step.h"

namespace trainer {

/// Whether the crop reads the image of `size` alone, and no border.
bool lies_inside(const Region& region, Pair size);

/// The smallest rectangle with all pixels of an image of `size` that the crop shows; one pixel where it shows none.
Region pixels_shown(const CropStep& step, Pair size);

/// Fills `target` with the crop of an image of `size`, of which `source` has the pixels of `place`, among them those of
/// pixels_shown(), mirrored as told. A border of PadMode::zeros is `fill`.
void crop(const CropStep& step, const Mirroring& mirroring, Pair size, const Image& source, const Region& place,
          std::uint8_t fill, Image& target);

}  // namespace trainer
