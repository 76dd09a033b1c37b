#pragma once

#include <cstdint>
#include <vector>

namespace trainer {

// Note [Recomputation as an order]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A training graph is a list of nodes, forward ones first, that each read and write values. Which values are kept for
// the backward pass and which are computed again is said by one list: the order in which nodes run, where a forward
// node may stand again and again. A read binds to the newest run of the value's producer before it, and a value is
// released after the last read of that run. So "nothing is recomputed" is 0, 1, 2, … and every scheme of checkpointing,
// nested ones too, is some other order; engine/program/recompute/recompute.h turns it into nodes of their own.

/// A training graph as the search sees it: times and sizes, no ops. Indices are positions in `nodes` and `values`.
struct RecomputeProblem {
  struct Node {
    double time = 0;                            ///< of one run, in any unit
    std::int64_t workspace_bytes = 0;           ///< held while it runs
    std::vector<std::int32_t> inputs, outputs;  ///< values; none twice
    /// Outputs that may take over the memory of an input which nothing reads later: (output, input) as values, of
    /// equal size, best first. A given value is never taken over.
    struct TakeOver {
      std::int32_t output = -1, input = -1;
    };
    std::vector<TakeOver> take_overs;
    /// What a further run of this node reads instead of `inputs`: for ops whose rerun needs less or other values (a
    /// batch norm reads its own mean and variance). Empty: the same.
    std::vector<std::int32_t> rerun_inputs;
    double rerun_time = -1;  ///< of a further run; below 0: `time`
    bool can_rerun = false;  ///< false for everything of the backward pass
  };
  struct Value {
    std::int64_t num_bytes = 0;
    bool is_given = false;   ///< there from the beginning to the end: parameters (counted in base_bytes)
    bool is_result = false;  ///< stays until the end once it is made: gradients of parameters
    /// Never computed again: further runs of its producer make its other outputs only. It lives from the first run to
    /// the last read.
    bool is_pinned = false;
  };
  std::vector<Node> nodes;  ///< forward nodes, then backward ones, in an order that computes everything
  std::vector<Value> values;
  std::int32_t num_forward = 0;
  std::int64_t base_bytes = 0;  ///< held throughout
  /// Given values are gathered for each run that reads them: Note [Sharded models] in engine/program/sharding.h.
  bool gathers_given = false;
};

/// A way to run the graph.
struct RecomputeOrder {
  std::vector<std::int32_t> nodes;  ///< see Note [Recomputation as an order]
  std::int64_t peak_bytes = 0;      ///< base_bytes included
  double recompute_time = 0;        ///< of all runs behind each node's first
};

/// Peak and recomputed time of an order, by walking it as engine/program/schedule.h would: outputs are allocated before
/// their node runs, unless they take over an input; then the workspace; what has had its last read is released after
/// it. Throws InternalError where a node reads what has not been computed.
RecomputeOrder measure_order(const RecomputeProblem& problem, std::vector<std::int32_t> nodes);

/// The order in which forward values with `keep[value]` false are computed again right before a backward node first
/// reads them, from what is kept, and then stay until their last read. Each is computed again at most once; a value
/// that was not kept and that nothing in the backward pass needs is not. Pinned and given values are kept in any case.
std::vector<std::int32_t> order_of_kept(const RecomputeProblem& problem, const std::vector<bool>& keep);

/// Orders from the fastest to the one of least peak, each slower and smaller than the one before: the candidates of a
/// budget. The first is `start` (what is done without a budget) or one as fast. On a chain (every forward node reads
/// its predecessor's value alone) dynamic programming finds the fastest order whose peak is within a budget, nested
/// recomputation included, up to a rounding of sizes to 1/1000 of the range, for some 120 nodes; longer chains are
/// merged to so many blocks for that, and searched node by node for orders that compute nothing more than twice. Other
/// graphs are cut into chains of blocks (Note [Chains of blocks] in blocks.h); up to 14 values, every set of
/// kept values is tried; where several values meet, sets near the best ones too, and orders are brought down to some
/// budgets (Note [Down to a budget] in descent.h). What has been found is then refined step by step. 2,500 nodes take
/// seconds. Always the same orders for the same problem.
std::vector<RecomputeOrder> search_orders(const RecomputeProblem& problem, const std::vector<std::int32_t>& start);

/// The fastest of `orders` whose peak is at most `budget`; null where there is none. Never slower for a larger budget.
const RecomputeOrder* fastest_within(const std::vector<RecomputeOrder>& orders, std::int64_t budget);

}  // namespace trainer
