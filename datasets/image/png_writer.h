#pragma once

#include <string>

#include "datasets/image/image.h"

namespace trainer {

/// The bytes of a PNG file of an image of 1 or 3 channels, which has a pixel. std::bad_alloc where there is no memory.
std::string png_of(const Image& image);

}  // namespace trainer
