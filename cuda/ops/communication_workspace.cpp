#include <array>

#include "cuda/ops/kernels.h"
#include "cuda/ops/tree_sum.h"
#include "engine/memory/rounding.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

namespace {

constexpr std::array communication_kinds = {OpKind::all_reduce, OpKind::reduce_scatter};

/// NCCL adds up in buffers of its own; what is added to something else then has one here.
std::int64_t communication_workspace_bytes(const Op& op, const WorkspaceModel& model) {
  if (sums_as_tree(op, model.sums_in_order)) return tree_sum_scratch(op).num_bytes();
  if (op.kind != OpKind::reduce_scatter || !attributes_of<RankPartsAttributes>(op).adds) return 0;
  std::int64_t num_bytes = 0;
  for (auto i = static_cast<std::size_t>(attributes_of<RankPartsAttributes>(op).num_tensors); i < op.inputs.size(); ++i)
    num_bytes += round_to_blocks(op.inputs[i].num_bytes());
  return num_bytes;
}

}  // namespace

bool sums_as_tree(const Op& op, bool sums_in_order) {
  if (op.kind == OpKind::all_reduce && attributes_of<AllReduceAttributes>(op).is_pair) return true;
  const bool is_of_rows = op.kind == OpKind::reduce_scatter && attributes_of<RankPartsAttributes>(op).is_output;
  require_internal(!(sums_in_order && is_of_rows), "ranks that share layers do not add up in one order");
  return sums_in_order && ranks_of(op).count > 2 && op.inputs[0].dtype != DType::i64;
}

RankGroup ranks_of_link(const Op& exchange, const RankSums& sums) {
  const bool is_sum = exchange.kind == OpKind::all_reduce || exchange.kind == OpKind::reduce_scatter ||
                      ranks_of_linear_cross_entropy(exchange) != nullptr;
  const bool goes_to_one = exchange.kind == OpKind::send || exchange.kind == OpKind::receive;
  return goes_to_one || (is_sum && sums_as_tree(exchange, sums.in_order)) ? sums.layout.all() : ranks_of(exchange);
}

TreeSumScratch tree_sum_scratch(const Op& op) {
  const bool is_whole = op.kind == OpKind::all_reduce;
  const std::int64_t num_ranks = ranks_of(op).count;
  const std::int64_t of_rank = (is_whole ? all_reduce_slice(op) : reduce_scatter_stretch(op)) *
                               static_cast<std::int64_t>(size_of(op.inputs[0].dtype));
  return {round_to_blocks(num_ranks / 2 * of_rank), round_to_blocks(num_ranks / 4 * of_rank)};
}

const ScratchRule communication_scratch = {communication_kinds, communication_workspace_bytes};

}  // namespace trainer::cuda
