#include <utility>
#include <vector>

#include "cuda/kernels/copy_channels.h"
#include "cuda/ops/kernels.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

void require_one_rank(const Op& op) {
  const auto& attributes = attributes_of<RankPartsAttributes>(op);
  if (attributes.num_ranks > 1 || attributes.adds)
    throw DeviceError("parallel.shard is not for ranks of GPUs yet; set parallel.shard: none, or device: cpu");
}

/// Of one rank, whose parts are whole: copies tensors that are not in their place.
std::unique_ptr<Kernel> make_copies(std::vector<TensorType> tensors, bool to_inputs, CudaContext& context) {
  return make_kernel([tensors = std::move(tensors), to_inputs,
                      &stream = context.stream](const OperandAddresses& addresses) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const void* const from = addresses.inputs[i];
      void* const to = to_inputs ? addresses.inputs[tensors.size() + i] : addresses.outputs[i];
      const std::int64_t count = tensors[i].num_elements();
      if (from != to)
        copy_channels(tensors[i].dtype, from, {.row_channels = count}, to, {.row_channels = count}, 1, count, stream);
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> make_reduce_scatter_kernel(const Op& op, CudaContext& context) {
  require_one_rank(op);
  return make_copies({op.inputs.begin(), op.inputs.begin() + attributes_of<RankPartsAttributes>(op).num_tensors}, true,
                     context);
}

std::unique_ptr<Kernel> make_all_gather_kernel(const Op& op, CudaContext& context) {
  require_one_rank(op);
  return make_copies(op.outputs, false, context);
}

}  // namespace trainer::cuda
