#pragma once

#include <cstdint>
#include <map>

#include "engine/program/recompute/search.h"

namespace trainer::recompute_problems {

/// The least time computed again by any order whose peak is at most `budget`; infinite where there is none. Dijkstra's
/// search over what is held and how many nodes have had their first run, so for up to about ten forward values.
double least_recompute_time(const RecomputeProblem& problem, std::int64_t budget);

/// Peak and least time of every set of kept values that no other set dominates.
std::map<std::int64_t, double> front_of_all_keep_sets(const RecomputeProblem& problem);

}  // namespace trainer::recompute_problems
