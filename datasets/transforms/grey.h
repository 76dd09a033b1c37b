#pragma once

#include <cstdint>

#include "datasets/image/image.h"

namespace trainer {

/// torchvision's grey of a colour: 0.2989 r + 0.587 g + 0.114 b, rounded down.
inline std::uint8_t grey_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return static_cast<std::uint8_t>((2989U * red + 5870U * green + 1140U * blue) / 10000U);
}

/// Makes the colours of `source` grey in `target`, which has so many channels: 1, or several that are equal, but for
/// the fourth of an image of four, which stays where there are four again. Grey is repeated where it is all that
/// `source` has.
void to_grey(const Image& source, std::int64_t channels, Image& target);

}  // namespace trainer
