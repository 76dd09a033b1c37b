#pragma once

#include <optional>
#include <utility>

#include "engine/report/plot/plot_picture.h"

namespace trainer {

/// The lowest and highest of a panel's curves that are finite, and above 0 where that is asked for; nothing where none
/// is.
std::optional<std::pair<double, double>> range_of_curves(const CurvePanel& panel, bool is_above_zero = false);

/// How high losses are shown: twice where they usually begin, so that those which diverge leave the picture at its
/// upper edge and do not flatten the others. Infinite where none falls.
double most_shown_loss(const CurvePanel& panel);

/// Says in the panel's remark that its curves go up to `highest`, where that is above the axis.
void tell_what_is_cut(CurvePanel& panel, double highest);

}  // namespace trainer
