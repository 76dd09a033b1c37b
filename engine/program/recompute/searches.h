#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/program/recompute/search.h"

namespace trainer {

/// What search_orders found, by what it was asked: experiments that train alike, but under another capacity, limit or
/// evaluation, are searched for once.
class RecomputeSearches {
 public:
  /// search_orders(problem, start). The answer stays where it is.
  const std::vector<RecomputeOrder>& orders(const RecomputeProblem& problem, const std::vector<std::int32_t>& start);

  /// Of the problems that were searched: a measure of the work.
  std::int64_t num_nodes_searched() const { return num_nodes_searched_; }

 private:
  std::map<std::vector<std::int64_t>, std::vector<RecomputeOrder>> found_;  // by everything that is asked
  std::int64_t num_nodes_searched_ = 0;
};

}  // namespace trainer
