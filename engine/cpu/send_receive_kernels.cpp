#include <cstring>

#include "engine/cpu/exchange_ranks.h"
#include "engine/cpu/exchange_thread.h"
#include "engine/cpu/kernels.h"

namespace trainer {

namespace {

std::unique_ptr<CpuKernel> make_send_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<PeerAttributes>(op);
  auto kernel = make_kernel(
      [ranks = ExchangeRanks(context, attributes.ranks), peer = static_cast<int>(1 - attributes.place),
       num_bytes = op.inputs[0].num_bytes()](const OperandAddresses& addresses, const StepScalars&) mutable {
        const SentBytes sent{peer, addresses.inputs[0], num_bytes};
        if (ranks.size() > 1) ranks.reach().exchange({&sent, 1}, {});
      });
  return make_exchange(op, std::move(kernel), context);
}

std::unique_ptr<CpuKernel> make_receive_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<PeerAttributes>(op);
  auto kernel = make_kernel(
      [ranks = ExchangeRanks(context, attributes.ranks), peer = static_cast<int>(1 - attributes.place),
       num_bytes = op.outputs[0].num_bytes()](const OperandAddresses& addresses, const StepScalars&) mutable {
        if (ranks.size() == 1) {
          std::memset(addresses.outputs[0], 0, static_cast<std::size_t>(num_bytes));
          return;
        }
        const ReceivedBytes received{peer, addresses.outputs[0], num_bytes};
        ranks.reach().exchange({}, {&received, 1});
      });
  return make_exchange(op, std::move(kernel), context);
}

}  // namespace

const CpuOp send_on_cpu = {make_send_kernel, takes_16_bit};
const CpuOp receive_on_cpu = {make_receive_kernel, takes_16_bit};

}  // namespace trainer
