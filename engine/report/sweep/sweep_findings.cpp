#include "engine/report/sweep/sweep_findings.h"

#include <algorithm>

namespace trainer {

const SweepRow* SweepSeries::largest_that_fits() const {
  const auto had_memory = [](const SweepRow* row) {
    return has_result(row->status) && row->peak_reserved && !lacks_memory(row->status);
  };
  const auto found = std::find_if(rows.rbegin(), rows.rend(), had_memory);
  return found == rows.rend() ? nullptr : *found;
}

bool SweepSeries::lacks_memory_somewhere() const {
  return std::any_of(rows.begin(), rows.end(), [](const SweepRow* row) { return lacks_memory(row->status); });
}

std::vector<SweepSeries> series_of(const std::vector<SweepRow>& rows) {
  std::vector<SweepSeries> all;
  for (const SweepRow& row : rows) {
    const std::vector<std::string> others(row.values.begin() + 1, row.values.end());
    auto series =
        std::find_if(all.begin(), all.end(), [&](const SweepSeries& known) { return known.others == others; });
    if (series == all.end()) series = all.insert(all.end(), {others, {}});
    series->rows.push_back(&row);
  }
  return all;
}

}  // namespace trainer
