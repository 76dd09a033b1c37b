#include <vector>

#include "engine/cpu/exchange_thread.h"
#include "engine/cpu/kernels.h"
#include "engine/device/communicator.h"

namespace trainer {

namespace {

std::unique_ptr<CpuKernel> make_broadcast_kernel(const Op& op, CpuContext& context) {
  std::vector<std::int64_t> sizes;
  for (const TensorType& tensor : op.inputs) sizes.push_back(tensor.num_bytes());
  auto kernel = make_kernel([sizes = std::move(sizes), num_ranks = attributes_of<BroadcastAttributes>(op).num_ranks,
                             &context](const OperandAddresses& addresses, const StepScalars&) {
    if (num_ranks == 1) return;
    Communicator* const ranks = context.communicator;
    require_internal(ranks != nullptr && ranks->size() == num_ranks, "ranks reach one another");
    std::vector<SentBytes> sends;
    std::vector<ReceivedBytes> receives;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (ranks->rank() != 0) receives.push_back({0, addresses.inputs[i], sizes[i]});
      for (int rank = 1; ranks->rank() == 0 && rank < ranks->size(); ++rank)
        sends.push_back({rank, addresses.inputs[i], sizes[i]});
    }
    ranks->exchange(sends, receives);
  });
  return make_exchange(op, std::move(kernel), context);
}

}  // namespace

const CpuOp broadcast_on_cpu = {make_broadcast_kernel, takes_16_bit};

}  // namespace trainer
