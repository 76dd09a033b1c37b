#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "engine/program/recompute/search.h"

namespace trainer {

/// How the tables of a search count bytes: in units of which `range_bytes` has at most `max_units`, exactly if a common
/// divisor of all sizes allows it. Rounded to the nearest, not up: over many blocks roundings cancel, and what the
/// tables propose is measured before it is believed.
class RecomputeUnits {
 public:
  RecomputeUnits(const RecomputeProblem& problem, std::int64_t range_bytes, std::int64_t max_units) {
    std::int64_t divisor = 0;
    for (const RecomputeProblem::Value& value : problem.values) divisor = std::gcd(divisor, value.num_bytes);
    for (const RecomputeProblem::Node& node : problem.nodes) divisor = std::gcd(divisor, node.workspace_bytes);
    divisor = std::max<std::int64_t>(1, divisor);
    unit_bytes_ = std::max(
        static_cast<double>(divisor),
        range_bytes / divisor <= max_units ? 0.0 : static_cast<double>(range_bytes) / static_cast<double>(max_units));
    max_ = of(range_bytes);
  }

  std::int32_t of(std::int64_t num_bytes) const {
    return static_cast<std::int32_t>(std::lround(static_cast<double>(num_bytes) / unit_bytes_));
  }
  /// That of `range_bytes`.
  std::int32_t max() const { return max_; }

 private:
  double unit_bytes_ = 1;
  std::int32_t max_ = 0;
};

}  // namespace trainer
