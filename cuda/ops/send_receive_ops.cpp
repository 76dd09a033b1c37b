#include <array>

#include "cuda/kernels/fill_zero.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/link_of.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_send_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<PeerAttributes>(op);
  if (attributes.ranks.count == 1) return make_kernel([](const OperandAddresses&) {});
  return make_kernel([peer = static_cast<int>(attributes.peer()), num_bytes = op.inputs[0].num_bytes(),
                      &context](const OperandAddresses& addresses) {
    const RankTensor sent{addresses.inputs[0], num_bytes};
    link_to_all(context).exchange(peer, {&sent, 1}, {}, DType::u8, context.stream);
  });
}

std::unique_ptr<Kernel> make_receive_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<PeerAttributes>(op);
  const std::int64_t num_bytes = op.outputs[0].num_bytes();
  if (attributes.ranks.count == 1) {
    require_internal(num_bytes % 2 == 0, "zeros are written two bytes at a time");
    return make_kernel([num_bytes, &stream = context.stream](const OperandAddresses& addresses) {
      const std::array tensors = {ZeroedTensor{addresses.outputs[0], num_bytes / 2}};
      fill_zero(DType::f16, tensors, stream);
    });
  }
  return make_kernel(
      [peer = static_cast<int>(attributes.peer()), num_bytes, &context](const OperandAddresses& addresses) {
        const RankTensor received{addresses.outputs[0], num_bytes};
        link_to_all(context).exchange(peer, {}, {&received, 1}, DType::u8, context.stream);
      });
}

}  // namespace trainer::cuda
