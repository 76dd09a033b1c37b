#pragma once

#include "engine/program/recompute/search.h"

namespace trainer {

/// Makes the orders of many sets of kept values of one problem (see order_of_kept). The problem must outlive it.
class KeptOrders {
 public:
  explicit KeptOrders(const RecomputeProblem& problem);

  /// Forward values whose being kept can be chosen and whose choice matters: made by a node that can run again, neither
  /// given nor pinned nor a result, and read in the backward pass or by what may be computed again for it. Ascending.
  const std::vector<std::int32_t>& choices() const { return choices_; }

  /// Writes order_of_kept(problem, keep) to `order`.
  void order_of(const std::vector<bool>& keep, std::vector<std::int32_t>& order);

 private:
  void compute_again(std::int32_t value, std::vector<std::int32_t>& order);

  const RecomputeProblem& problem_;
  std::vector<std::int32_t> producer_;  // by value; -1: none, or a backward node
  std::vector<bool> is_free_;           // by value: may be dropped
  std::vector<std::int32_t> choices_;
  std::vector<bool> is_there_;  // by value: held, or its copy of the backward pass is
  std::vector<std::int32_t> to_run_, to_visit_;
};

}  // namespace trainer
