#include <cstring>

#include "engine/cpu/kernels.h"

namespace trainer {

// Each copy is made by its first half: a device may have finished when the call returns.

namespace {

std::unique_ptr<CpuKernel> make_offload_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<OffloadAttributes>(op);
  const std::int64_t num_bytes = op.inputs[0].num_bytes();
  std::byte* host = context.slots->reserve(attributes.slot, num_bytes);
  return make_kernel([=, copies = !attributes.finish](const OperandAddresses& addresses, const StepScalars&) {
    if (copies) std::memcpy(host, addresses.inputs[0], static_cast<std::size_t>(num_bytes));
  });
}

std::unique_ptr<CpuKernel> make_fetch_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<OffloadAttributes>(op);
  if (attributes.finish) return make_kernel([](const OperandAddresses&, const StepScalars&) {});
  const std::int64_t num_bytes = op.outputs[0].num_bytes();
  const std::byte* host = context.slots->reserve(attributes.slot, num_bytes);
  return make_kernel([=](const OperandAddresses& addresses, const StepScalars&) {
    std::memcpy(addresses.outputs[0], host, static_cast<std::size_t>(num_bytes));
  });
}

}  // namespace

const CpuOp offload_on_cpu = {make_offload_kernel, takes_16_bit};
const CpuOp fetch_on_cpu = {make_fetch_kernel, takes_16_bit};

}  // namespace trainer
