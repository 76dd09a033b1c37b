#pragma once

#include <cstdint>
#include <vector>

#include "datasets/image/image.h"
#include "datasets/transforms/resampled_axis.h"

namespace trainer {

/// Of a ResizeScratch.
struct ResizeMemory {
  AxisMemory rows, columns, mask_rows, mask_columns;
  std::int64_t between = 0, last_row = 0;

  std::int64_t num_bytes() const {
    return rows.num_bytes() + columns.num_bytes() + mask_rows.num_bytes() + mask_columns.num_bytes() + between +
           last_row;
  }
};

/// What a resize computes with, kept from image to image, and with it the weights of the last geometry.
struct ResizeScratch {
  ResampledAxis rows, columns;
  ResampledAxis mask_rows, mask_columns;  ///< of masks, by nearest
  std::vector<std::uint8_t> between;      ///< rows that are resized, columns that are not
  std::vector<std::uint8_t> last_row;     ///< of the image, with bytes behind it that may be read

  void reserve(const ResizeMemory& memory) {
    rows.reserve(memory.rows);
    columns.reserve(memory.columns);
    mask_rows.reserve(memory.mask_rows);
    mask_columns.reserve(memory.mask_columns);
    between.reserve(static_cast<std::size_t>(memory.between));
    last_row.reserve(static_cast<std::size_t>(memory.last_row));
  }
  std::size_t num_bytes() const {
    return rows.num_bytes() + columns.num_bytes() + mask_rows.num_bytes() + mask_columns.num_bytes() +
           between.capacity() + last_row.capacity();
  }
};

/// Fills `target`, (kept of rows, kept of columns, channels), from `source`, which both were prepared for: `rows` says
/// which rows a pixel is made of, `columns` which columns (Note [Resampling] in resampled_axis.h).
void resize(const Image& source, const ResampledAxis& rows, const ResampledAxis& columns, ResizeScratch& scratch,
            Image& target);

}  // namespace trainer
