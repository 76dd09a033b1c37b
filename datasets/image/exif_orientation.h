#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "datasets/image/image.h"

namespace trainer {

/// How a stored image is turned upright: rows and columns are mirrored where told, then exchanged where told.
struct Orientation {
  bool mirrored_rows = false, mirrored_columns = false;  ///< the stored image's last row, or column, is the first
  bool exchanged = false;                                ///< rows of the stored image are columns of the upright one

  bool is_upright() const { return !mirrored_rows && !mirrored_columns && !exchanged; }
  /// Of the upright image for the stored one's size and the other way.
  Pair turned(Pair size) const;
  /// The same pixels, counted in the other image. `stored_size` is all of the stored image's.
  Region stored_region(Region upright, Pair stored_size) const;
  Region upright_region(Region stored, Pair stored_size) const;

  friend bool operator==(const Orientation&, const Orientation&) = default;
};

/// Of an EXIF block, which is a TIFF file (EXIF 2.32, 4.6.4, tag 0x0112), with or without "Exif\0\0" before it. Upright
/// where it tells nothing that is valid, as PIL's exif_transpose takes it.
Orientation exif_orientation(std::span<const std::byte> exif);

/// Fills `upright` with the pixels of `stored`, turned.
void turn_upright(const Image& stored, const Orientation& orientation, Image& upright);

}  // namespace trainer
