#pragma once

#include <cstdint>
#include <span>

#include "engine/ops/op.h"
#include "engine/plan/machine_rates.h"

namespace trainer {

/// A call that was timed.
struct TimedOp {
  Op op;
  std::int64_t workspace_bytes = 0;
  double seconds = 0;
};

/// Rates under which the cost model comes as close as it can to what was measured: for each kind and way the least sum
/// over its calls of what grows with |log(predicted / measured)|, long calls counting somewhat more. A FLOP rate that
/// no call shows, because all wait for bytes, is the highest that was reached, and so the other way about. Ways of
/// which nothing was measured take the rates of the kind's other way or precision, and kinds of which nothing was,
/// those of `fallback`.
MachineRates fit_rates(std::span<const TimedOp> timed, const MachineRates& fallback);

}  // namespace trainer
