#include <vector>

#include "cuda/ops/kernels.h"
#include "cuda/ops/link_of.h"
#include "cuda/ops/tree_sum.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_all_reduce_kernel(const Op& op, CudaContext& context) {
  const std::int64_t num_ranks = attributes_of<AllReduceAttributes>(op).num_ranks;
  if (num_ranks == 1) return make_kernel([](const OperandAddresses&) {});  // the sum is what it has
  if (sums_as_tree(op, context.sums_in_order)) return make_tree_sum_kernel(op, context);
  std::vector<RankTensor> tensors;
  for (const TensorType& type : op.inputs) tensors.push_back({nullptr, type.num_elements()});
  return make_kernel([tensors = std::move(tensors), type = op.inputs[0].dtype, num_ranks,
                      &context](const OperandAddresses& addresses) mutable {
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].data = addresses.inputs[i];
    link_of(context, num_ranks).all_reduce(tensors, type, context.stream);
  });
}

std::unique_ptr<Kernel> make_broadcast_kernel(const Op& op, CudaContext& context) {
  const std::int64_t num_ranks = attributes_of<BroadcastAttributes>(op).num_ranks;
  if (num_ranks == 1) return make_kernel([](const OperandAddresses&) {});
  std::vector<RankTensor> tensors;
  for (const TensorType& type : op.inputs) tensors.push_back({nullptr, type.num_bytes()});
  return make_kernel([tensors = std::move(tensors), num_ranks, &context](const OperandAddresses& addresses) mutable {
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].data = addresses.inputs[i];
    link_of(context, num_ranks).broadcast(tensors, DType::u8, context.stream);
  });
}

}  // namespace trainer::cuda
