#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/report/text/dot_canvas.h"
#include "engine/report/text/style.h"

namespace trainer {

/// Columns before the letters of a chart: a number, and the axis.
inline constexpr std::size_t dot_chart_margin = 13;

/// A line of dots: a height for each column of them, NaN where there is none. `rows` lines of text, each ended, the
/// first with the highest value in front of it and the last with the lowest. Empty where no height is finite.
std::string dot_chart(std::span<const double> heights, std::size_t rows, const Style& style);

}  // namespace trainer
