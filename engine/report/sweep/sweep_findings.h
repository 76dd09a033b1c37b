#pragma once

#include <string>
#include <vector>

#include "engine/report/sweep/sweep_row.h"

namespace trainer {

/// Rows of a sweep that share all values but the first.
struct SweepSeries {
  std::vector<std::string> others;    ///< the values of the keys behind the first
  std::vector<const SweepRow*> rows;  ///< by the first key's value

  /// The last row that had the memory it needed, also where one before it had not; null: none had.
  const SweepRow* largest_that_fits() const;
  bool lacks_memory_somewhere() const;
};

/// The rows, as sorted_rows() orders them, by combination of the other keys. Points into `rows`.
std::vector<SweepSeries> series_of(const std::vector<SweepRow>& rows);

}  // namespace trainer
