#include <vector>

#include "cuda/ops/kernels.h"
#include "cuda/ops/link_of.h"
#include "cuda/ops/tree_sum.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_all_reduce_kernel(const Op& op, CudaContext& context) {
  const RankGroup ranks = attributes_of<AllReduceAttributes>(op).ranks;
  if (ranks.count == 1) return make_kernel([](const OperandAddresses&) {});  // the sum is what it has
  if (sums_as_tree(op, context.sums.in_order)) return make_tree_sum_kernel(op, context);
  std::vector<RankTensor> tensors;
  for (const TensorType& type : op.inputs) tensors.push_back({nullptr, type.num_elements()});
  return make_kernel([tensors = std::move(tensors), type = op.inputs[0].dtype, ranks,
                      &context](const OperandAddresses& addresses) mutable {
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].data = addresses.inputs[i];
    link_of(context, ranks).all_reduce(tensors, type, context.stream);
  });
}

std::unique_ptr<Kernel> make_broadcast_kernel(const Op& op, CudaContext& context) {
  const RankGroup ranks = attributes_of<BroadcastAttributes>(op).ranks;
  if (ranks.count == 1) return make_kernel([](const OperandAddresses&) {});
  std::vector<RankTensor> tensors;
  for (const TensorType& type : op.inputs) tensors.push_back({nullptr, type.num_bytes()});
  return make_kernel([tensors = std::move(tensors), ranks, &context](const OperandAddresses& addresses) mutable {
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].data = addresses.inputs[i];
    link_of(context, ranks).broadcast(tensors, DType::u8, context.stream);
  });
}

}  // namespace trainer::cuda
