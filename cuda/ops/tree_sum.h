#pragma once

#include <cstdint>
#include <memory>

#include "cuda/ops/kernels.h"

namespace trainer::cuda {

// Note [Sums in one order]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// NCCL adds up over more than two ranks in an order that follows from how they are connected and from the size of what
// is added. Where the order must be that of Note [Sums over ranks] in engine/ops/all_reduce.h (parallel.deterministic),
// ranks exchange numbers and add them up themselves, n of them in log2(n) rounds, by halves: in round k a rank meets
// the one whose number differs from its own in bit k. Of what is left each keeps what is for ranks whose bit k is its
// own, gives the other half away, and adds what it gets to what it keeps. So behind round k a rank has sums over
// 2^(k+1) neighbours, x0 + x1, x2 + x3, …, then these, and in the end the whole sums of what is for itself. An
// all_reduce then goes back through the rounds, in which each tells its partner what it has. A rank sends and receives
// 2 · (n − 1) / n of the bytes, as with NCCL's own sums, and meets log2(n) others.
//
// Lists of tensors are cut into stretches, whose sums lie in scratch: a tensor is read before its sum is written. Sums
// of two ranks have one order, and those of whole numbers any: these remain NCCL's. But two that are no group of NCCL's
// (Note [Groups of ranks] in cuda/model/rank_sums.h) add up here, in one round, in whatever order the others do.

/// Whether a sum over ranks is made so; `sums_in_order`: RankSums::in_order.
bool sums_as_tree(const Op& op, bool sums_in_order);

/// The ranks of the communicator that an exchange goes through: those whom it is among, or all.
RankGroup ranks_of_link(const Op& exchange, const RankSums& sums);

/// Of one stretch: the sums, and behind them what is received to be added to them.
struct TreeSumScratch {
  std::int64_t sum_bytes = 0, received_bytes = 0;
  std::int64_t num_bytes() const { return sum_bytes + received_bytes; }
};
TreeSumScratch tree_sum_scratch(const Op& op);

/// Of an all_reduce or a reduce_scatter that sums_as_tree.
std::unique_ptr<Kernel> make_tree_sum_kernel(const Op& op, CudaContext& context);

}  // namespace trainer::cuda
