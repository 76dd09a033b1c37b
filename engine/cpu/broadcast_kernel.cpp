#include <vector>

#include "engine/cpu/exchange_ranks.h"
#include "engine/cpu/exchange_thread.h"
#include "engine/cpu/kernels.h"

namespace trainer {

namespace {

std::unique_ptr<CpuKernel> make_broadcast_kernel(const Op& op, CpuContext& context) {
  std::vector<std::int64_t> sizes;
  for (const TensorType& tensor : op.inputs) sizes.push_back(tensor.num_bytes());
  auto kernel = make_kernel(
      [sizes = std::move(sizes), ranks_of_op = ExchangeRanks(context, attributes_of<BroadcastAttributes>(op).ranks)](
          const OperandAddresses& addresses, const StepScalars&) mutable {
        if (ranks_of_op.size() == 1) return;
        Communicator& ranks = ranks_of_op.reach();
        std::vector<SentBytes> sends;
        std::vector<ReceivedBytes> receives;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          if (ranks.rank() != 0) receives.push_back({0, addresses.inputs[i], sizes[i]});
          for (int rank = 1; ranks.rank() == 0 && rank < ranks.size(); ++rank)
            sends.push_back({rank, addresses.inputs[i], sizes[i]});
        }
        ranks.exchange(sends, receives);
      });
  return make_exchange(op, std::move(kernel), context);
}

}  // namespace

const CpuOp broadcast_on_cpu = {make_broadcast_kernel, takes_16_bit};

}  // namespace trainer
