#pragma once

#include "datasets/image/image.h"
#include "engine/config/transform_spec.h"

namespace trainer {

/// Mirrors the image where it is: left and right, or top and bottom, change places.
void flip(FlipDirection direction, Image& image);

}  // namespace trainer
