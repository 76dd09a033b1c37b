#pragma once

#include <string>
#include <vector>

#include "engine/config/sweep/sweep_grid.h"
#include "engine/report/sweep/sweep_row.h"

namespace trainer {

/// A sweep as a picture, an SVG file's text: memory above, speed below, over the first key; a line for each combination
/// of the other keys, of which the first `most_plotted_series` are shown. Points that lacked memory are crosses. Under
/// them, of runs, the training loss over the steps and what evaluations found, a curve for each point of those shown,
/// the first `most_plotted_curves`. `rows` are ordered as sorted_rows() orders them. For light and dark surroundings.
std::string sweep_plot(const std::string& title, const std::vector<SweptKey>& keys, const std::vector<SweepRow>& rows);

inline constexpr std::size_t most_plotted_series = 6;
inline constexpr std::size_t most_plotted_curves = 12;

}  // namespace trainer
