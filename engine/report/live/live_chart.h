#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/report/live/frame.h"
#include "engine/report/live/live_run.h"
#include "engine/report/text/dot_canvas.h"

namespace trainer {

/// A letter over the dots of a chart.
struct ChartMark {
  double share = 0;  ///< of its width, from 0 to 1
  double height = 0;
};

/// Letters across that a chart has in so many columns.
std::size_t chart_columns_of(std::size_t columns);

/// What stands between two heights that are known lies on a line between them; NaN stays at both ends.
std::vector<double> filled_between(std::vector<double> heights);

/// A chart of heights, one for each column of dots, with its highest and lowest number and `title` in its last line:
/// `rows` lines, at least two.
std::vector<FrameLine> dot_lines(std::span<const double> heights, double lowest, double highest, std::size_t rows,
                                 bool ascii, const std::string& title, std::size_t columns,
                                 std::span<const ChartMark> marks = {}, bool log_scale = false);

/// The training loss over the steps until now, with evaluations marked: `rows` lines; none where there are too few
/// steps or rows. `log_scale`: what is not above 0 is left out.
std::vector<FrameLine> loss_chart(const LiveRun& run, bool log_scale, bool ascii, std::size_t columns,
                                  std::size_t rows);

}  // namespace trainer
