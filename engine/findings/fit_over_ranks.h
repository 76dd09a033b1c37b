#pragma once

#include "engine/findings/find_fit.h"

namespace trainer {

/// find_fit over the numbers of ranks of `request.ranks`: searches each for itself, as for that number alone.
FitFindings find_fit_over_ranks(const FitRequest& request, const DeviceSource& devices,
                                const RatesProblemSink& on_rates_problem);

}  // namespace trainer
