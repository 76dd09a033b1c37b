#pragma once

#include <cstdint>

#include "datasets/image/image.h"

namespace trainer {

/// Makes the colours of `source` grey, as torchvision's rgb_to_grayscale does with bytes, in `target`, which has so
/// many channels: 1, or several that are equal, but for the fourth of an image of four, which stays where there are
/// four again. Grey is repeated where it is all that `source` has.
void to_grey(const Image& source, std::int64_t channels, Image& target);

}  // namespace trainer
