#pragma once

#include "engine/findings/find_fit.h"

namespace trainer {

/// find_fit over the layouts of the GPUs of `request.nodes` (Note [Search for layouts] in engine/plan/search/layouts/
/// find_layouts.h), with other techniques for the fastest of them.
FitFindings find_fit_over_layouts(const FitRequest& request, const DeviceSource& devices,
                                  const RatesProblemSink& on_rates_problem);

}  // namespace trainer
