#pragma once

#include <string>
#include <vector>

#include "engine/config/sweep/sweep_grid.h"
#include "engine/report/sweep/sweep_row.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What sweep_plot() draws, in letters: the losses of all points over their steps, the first `most_plotted_curves`, and
/// peak memory over the first key where that is numbers and memory is not the same for all, with the capacity; what
/// lacked memory is a cross. `rows` are ordered as sorted_rows() orders them. Empty where there is nothing to draw.
std::string sweep_charts(const std::vector<SweptKey>& keys, const std::vector<SweepRow>& rows, const Style& style);

}  // namespace trainer
