#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/out_of_memory_context.h"
#include "engine/report/style.h"

namespace trainer {

/// One bar of the chart: the highest point of a stretch of the step.
struct ChartRow {
  Phase phase = Phase::load;
  LayerId layer = no_layer;    ///< of the highest point
  std::int64_t allocated = 0;  ///< the highest in the stretch
  bool is_peak = false;        ///< the first row with the highest value of all
};

/// A timeline cut into at most `most_rows` stretches (at least one for each run of a phase), in order.
std::vector<ChartRow> compress_timeline(std::span<const TimelinePoint> timeline, std::size_t most_rows = 20);

/// The step's memory as bars, one line a stretch; the peak is marked. `layer_labels` is indexed by layer (empty: the
/// phase alone is named). `failed_bytes` > 0 adds the request that could not be served as a last bar.
/// Empty text where the timeline is empty.
std::string memory_chart(std::span<const TimelinePoint> timeline, std::span<const std::string> layer_labels,
                         const Style& style, std::int64_t failed_bytes = 0);

}  // namespace trainer
