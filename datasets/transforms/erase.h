#pragma once

#include <cstdint>
#include <cstring>

#include "datasets/image/image.h"

namespace trainer {

/// Every channel of the region, which lies inside the image, becomes `fill`.
inline void erase(const Region& region, std::uint8_t fill, Image& image) {
  for (std::int64_t y = region.top; y < region.top + region.height; ++y) {
    std::memset(image.row(y) + region.left * image.channels(), fill,
                static_cast<std::size_t>(region.width * image.channels()));
  }
}

}  // namespace trainer
