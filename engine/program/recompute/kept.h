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

  /// In which what is needed for one value is computed again: as the nodes stand, or depth first from the value, the
  /// inputs of a node from the first on or from the last on. They differ where a node reads several, in what is held
  /// meanwhile.
  enum class Sequence : std::uint8_t { by_node, first_input_first, last_input_first };

  /// Writes order_of_kept(problem, keep) to `order`.
  void order_of(const std::vector<bool>& keep, std::vector<std::int32_t>& order) {
    order_of(keep, {}, Sequence::by_node, order);
  }
  /// The same in another sequence, and with values of which `again` is true forgotten behind the backward node that
  /// they were computed for: the next one that needs them has them computed once more. Empty: none.
  void order_of(const std::vector<bool>& keep, const std::vector<bool>& again, Sequence sequence,
                std::vector<std::int32_t>& order);

  /// Whether a node that may run again for the backward pass reads several values that may be dropped: on a chain all
  /// sequences are one.
  bool branches() const { return branches_; }

 private:
  void compute_again(std::int32_t value, std::vector<std::int32_t>& order);
  void compute_again_depth_first(std::int32_t value, bool last_first, std::vector<std::int32_t>& order);
  const std::vector<std::int32_t>& rerun_reads(std::int32_t n) const {
    const RecomputeProblem::Node& node = problem_.nodes[n];
    return node.rerun_inputs.empty() ? node.inputs : node.rerun_inputs;
  }

  const RecomputeProblem& problem_;
  std::vector<std::int32_t> producer_;  // by value; -1: none, or a backward node
  std::vector<bool> is_free_;           // by value: may be dropped
  std::vector<std::int32_t> choices_;
  std::vector<bool> is_there_;  // by value: held, or its copy of the backward pass is
  bool branches_ = false;
  std::vector<std::int32_t> to_run_, to_visit_;
  std::vector<std::size_t> next_input_;
};

}  // namespace trainer
