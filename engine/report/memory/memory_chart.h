#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/out_of_memory_context.h"
#include "engine/report/text/style.h"

namespace trainer {

// Note [Memory chart]
// ~~~~~~~~~~~~~~~~~~~
// From left to right the step goes by, an allocation or release after the other, not to the scale of time; upwards the
// bytes are stacked, what stays longest lowest: P parameter, O optimizer_state, G gradient, A activation, I input,
// W workspace, T temporary, C communication, F frozen. A column shows the highest of its points, so that no peak is
// lost. With colour the letters have the colour of their category.

/// One column of the chart: a stretch of the timeline by its highest point.
struct ChartColumn {
  Phase phase = Phase::load;
  LayerId layer = no_layer;
  std::int64_t allocated = 0;
  CategoryBytes by_category{};
  bool is_peak = false;  ///< the first column with the highest value of all
};

/// A timeline in at most `most_columns` stretches, in order; where it has fewer points, each has equally many columns.
std::vector<ChartColumn> chart_columns(std::span<const TimelinePoint> timeline, std::size_t most_columns);

struct MemoryChartOptions {
  std::span<const std::string> layer_labels = {};  ///< by layer, to name the layer of the peak; may be empty
  std::int64_t failed_bytes = 0;  ///< a request that could not be served, drawn on top of the end; 0: none
  std::int64_t capacity = 0;      ///< drawn as a line where the chart reaches above it; 0: none
};

/// The step's memory as a chart with its peak marked, its phases below, and a line that says what the letters stand
/// for, with the bytes of each at the peak. Empty text where the timeline is empty.
std::string memory_chart(std::span<const TimelinePoint> timeline, const MemoryChartOptions& options,
                         const Style& style);

/// As above; what the report of a failure asks for.
std::string memory_chart(std::span<const TimelinePoint> timeline, std::span<const std::string> layer_labels,
                         const Style& style, std::int64_t failed_bytes = 0);

}  // namespace trainer
