#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/recompute/search.h"

namespace trainer {

/// `order` without those runs whose outputs nothing reads: further runs anywhere, and all runs of the nodes from
/// `first` to before `end`. What only they needed goes too.
std::vector<std::int32_t> without_unread(const RecomputeProblem& problem, const std::vector<std::int32_t>& order,
                                         std::int32_t first = 0, std::int32_t end = 0);

}  // namespace trainer
