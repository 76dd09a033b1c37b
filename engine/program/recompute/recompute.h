#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/graph.h"
#include "engine/program/recompute/search.h"
#include "engine/program/recompute/searches.h"

namespace trainer {

// Note [Recomputation]
// ~~~~~~~~~~~~~~~~~~~~
// What the backward pass reads of the forward pass is either kept until then or computed again, right before it is
// read, by the same ops on the same numbers: results are bit for bit those of keeping everything. Three things decide:
//
//   memory.recompute_cheap    norms, activations, dropout, casts, pooling and sums are computed again where what they
//                             are made from is kept anyhow: no product is repeated, so it is nearly free
//   train.checkpointing       products too: by layers (every, layers, sqrt), or by search under a budget
//   rules of the graph        an op that changes state (a loss, running statistics), or that ranks run together, is
//                             never run twice; batch norm is repeated from the mean and the deviation it found
//
// The outcome is an order of nodes: Note [Recomputation as an order] in recompute_search.h.

/// The fronts that were searched for, so that a second budget costs no second search. Belongs to one experiment on one
/// device, budgets aside.
struct RecomputeFronts {
  std::map<std::int64_t, std::vector<RecomputeOrder>> by_batch_size;
  RecomputeSearches* searches = nullptr;  ///< of many experiments; may be null
};

struct RecomputeOptions {
  const CheckpointingConfig* checkpointing = nullptr;
  bool cheap = true;
  bool in_place = true;
  bool accumulates = false;           ///< gradients of parameters are there throughout
  bool updates_in_backward = false;   ///< gradients of parameters go where they are made
  bool gathers_weights = false;       ///< for each run that reads them
  std::int64_t persistent_bytes = 0;  ///< blocks held throughout
  RecomputeFronts* fronts = nullptr;  ///< may be null
  /// Whether keeping `others` takes less than keeping `value`, of the problem's values; empty: by their bytes there.
  std::function<bool(std::span<const std::int32_t> others, std::int32_t value)> costs_less{};
};

/// The order of nodes that keeps to the options, as apply_order() takes it; empty: as they stand. Throws as
/// apply_recompute().
std::vector<std::int32_t> recompute_order(const Graph& graph, const DeviceModel& device,
                                          const RecomputeOptions& options);

/// Puts nodes of phase `recompute` into a differentiated graph. Throws ConfigError where no layer matches a pattern, or
/// where a budget cannot be met, with the least that could.
void apply_recompute(Graph& graph, const DeviceModel& device, const RecomputeOptions& options);

/// The graph as the search sees it, its nodes in their order. Values that no node makes or reads have no bytes: views,
/// which stand for what they view, and those that a fusion removed.
RecomputeProblem make_recompute_problem(const Graph& graph, const DeviceModel& device, const RecomputeOptions& options);

/// Values that are kept for the backward pass if only cheap ops are run again: `keep` without those that are cheap to
/// compute from the rest of what is kept. `costs_less` as RecomputeOptions has it.
void drop_cheap_values(
    const RecomputeProblem& problem, const Graph& graph, std::vector<bool>& keep,
    const std::function<bool(std::span<const std::int32_t> others, std::int32_t value)>& costs_less = {});

/// Values that are kept for the backward pass, without a budget.
std::vector<bool> kept_values(const RecomputeProblem& problem, const Graph& graph, const RecomputeOptions& options);

/// Replaces the graph's nodes by `order`, an order of the problem made from it: further runs become nodes with values
/// of their own.
void apply_order(Graph& graph, const std::vector<std::int32_t>& order);

}  // namespace trainer
