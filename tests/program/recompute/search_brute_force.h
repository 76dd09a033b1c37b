#pragma once

#include <cstdint>
#include <limits>
#include <map>

#include "engine/program/recompute/search.h"

namespace trainer::recompute_problems {

/// The least time computed again by any order whose peak is at most `budget`; infinite where there is none of less than
/// `below`. Dijkstra's search over what is held and how many nodes have had their first run: a second for about
/// thirteen forward values, a minute for seventeen where `below` is near.
double least_recompute_time(const RecomputeProblem& problem, std::int64_t budget,
                            double below = std::numeric_limits<double>::infinity());

/// Peak and least time of every set of kept values that no other set dominates.
std::map<std::int64_t, double> front_of_all_keep_sets(const RecomputeProblem& problem);

}  // namespace trainer::recompute_problems
