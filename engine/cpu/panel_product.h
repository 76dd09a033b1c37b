#pragma once

#include <cstdint>

namespace trainer {

// Note [Panels]
// ~~~~~~~~~~~~~
// The products inside attention are of blocks that lie in a cache and are read once or twice, so that copying them into
// a library's order would cost as much as the product. Here the blocks are made in the order that products read:
// a matrix that is read or written by vectors lies in panels of 16 columns, row behind row, and the other factor is
// read number by number, from rows or from columns, wherever it lies. Scores are made with keys as rows and queries as
// columns: then a softmax over keys goes down the columns, sixteen queries at a time, without a sum across a vector,
// and the weights are what the next product reads.

inline constexpr std::int64_t panel_columns = 16;

/// Numbers of a matrix of `columns`, padded to whole panels.
constexpr std::int64_t padded_columns(std::int64_t columns) {
  return (columns + panel_columns - 1) / panel_columns * panel_columns;
}

/// Element (row, column) at (column / 16) · stride + row · 16 + column % 16.
struct Panels {
  float* data = nullptr;
  std::int64_t stride = 0;  ///< from one panel to the next

  float* panel(std::int64_t first_column) const { return data + first_column / panel_columns * stride; }
};

/// The factor that is read number by number: (rows, depth).
struct Factor {
  const float* data = nullptr;
  std::int64_t stride = 0;  ///< from one row to the next, or one column to the next where `by_columns`
  bool by_columns = false;  ///< element (row, k) at k · stride + row, else at row · stride + k
  /// Not by columns: every so many of the depth it goes on `chunk_stride` numbers later, as panels do; 0: never.
  std::int64_t chunk = 0, chunk_stride = 0;
};

/// Panels that multiply_panels goes through together: fewer columns at once would leave it registers.
std::int64_t panels_at_once();

/// c (rows, columns) = a (rows, depth) · b (depth, columns), or added to c; columns are a multiple of 16. On the
/// calling thread, without memory of its own; each element is summed in the order of the depth.
void multiply_panels(const Factor& a, const Panels& b, const Panels& c, std::int64_t rows, std::int64_t depth,
                     std::int64_t columns, bool adds);

}  // namespace trainer
