#pragma once

#include <cstdint>

#include "datasets/image/image.h"
#include "engine/config/transform_spec.h"

namespace trainer {

/// How rows are written: the last one first, the last pixel of each first.
struct Mirroring {
  bool down = false, across = false;

  void add(FlipDirection direction) {
    bool& mirrored = direction == FlipDirection::horizontal ? across : down;
    mirrored = !mirrored;
  }
};

/// Writes the pixels of a row in the other order, to a place of their own.
void copy_reversed(const std::uint8_t* from, std::int64_t width, std::int64_t channels, std::uint8_t* to);

/// Mirrors the image where it is: left and right, or top and bottom, change places.
void flip(FlipDirection direction, Image& image);

}  // namespace trainer
