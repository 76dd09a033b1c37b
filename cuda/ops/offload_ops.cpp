#include "cuda/ops/kernels.h"
#include "cuda/ops/slot_copies.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_offload_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<OffloadAttributes>(op);
  const std::int64_t num_bytes = op.inputs[0].num_bytes();
  SlotCopy& copy = context.slots->copy_of(attributes.slot, StreamKind::to_host);
  if (attributes.finish) return make_kernel([&copy](const OperandAddresses&) { copy.finish(); });
  std::byte* host = context.slots->memory().reserve(attributes.slot, num_bytes);
  return make_kernel([&copy, host, num_bytes](const OperandAddresses& addresses) {
    copy.start(host, addresses.inputs[0], num_bytes);
  });
}

std::unique_ptr<Kernel> make_fetch_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<OffloadAttributes>(op);
  SlotCopy& copy = context.slots->copy_of(attributes.slot, StreamKind::to_device);
  if (attributes.finish) return make_kernel([&copy](const OperandAddresses&) { copy.finish(); });
  const std::int64_t num_bytes = op.outputs[0].num_bytes();
  const std::byte* host = context.slots->memory().reserve(attributes.slot, num_bytes);
  return make_kernel([&copy, host, num_bytes](const OperandAddresses& addresses) {
    copy.start(addresses.outputs[0], host, num_bytes);
  });
}

}  // namespace trainer::cuda
