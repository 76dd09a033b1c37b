#include "engine/ops/all_reduce.h"

#include <algorithm>
#include <vector>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

std::int64_t listed_elements(const Op& op) {
  std::int64_t count = 0;
  for (const TensorType& tensor : op.inputs) count += tensor.num_elements();
  return count;
}

}  // namespace

std::int64_t all_reduce_slice(const Op& op) {
  const std::int64_t num_ranks = attributes_of<AllReduceAttributes>(op).ranks.count;
  if (num_ranks < 2) return 0;
  constexpr std::int64_t multiple = 64;
  const std::int64_t whole = (listed_elements(op) + num_ranks - 1) / num_ranks;
  const std::int64_t most =
      most_all_reduce_scratch / (num_ranks - 1) / static_cast<std::int64_t>(size_of(op.inputs[0].dtype));
  return std::min((whole + multiple - 1) / multiple, std::max(most / multiple, std::int64_t{1})) * multiple;
}

Op all_reduce_op(std::span<const TensorType> tensors, const RankGroup& ranks) {
  require_internal(ranks.count >= 1 && !tensors.empty(), "ranks sum tensors");
  for (const TensorType& tensor : tensors)
    require_internal(tensor.dtype == tensors[0].dtype, "tensors that are summed in one list are of one type");
  return {OpKind::all_reduce, AllReduceAttributes{ranks}, {tensors.begin(), tensors.end()}, {}};
}

Op pair_sum_op(std::span<const TensorType> tensors, std::int64_t first, std::int64_t second) {
  Op op = all_reduce_op(tensors, {2, first, second - first});
  op.attributes = AllReduceAttributes{.ranks = attributes_of<AllReduceAttributes>(op).ranks, .is_pair = true};
  return op;
}

namespace {

/// Of the slice that each rank adds up.
std::int64_t all_reduce_flops(const Op& op) {
  const std::int64_t num_ranks = attributes_of<AllReduceAttributes>(op).ranks.count;
  return listed_elements(op) * (num_ranks - 1) / num_ranks;
}

}  // namespace

const OpDefinition all_reduce_definition = {
    .flops = all_reduce_flops, .precision = Precision::follows, .role = Role::communication, .takes_scratch = true};

}  // namespace trainer
