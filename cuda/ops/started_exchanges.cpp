#include "cuda/ops/started_exchanges.h"

#include <algorithm>

#include "cuda/ops/kernels.h"
#include "cuda/ops/tree_sum.h"

namespace trainer::cuda {

void StartedExchanges::start(const RankGroup& ranks, const OperandAddresses& operands,
                             const std::function<void()>& queue) {
  streams_.record(ready_, StreamKind::kernels);
  streams_.wait(StreamKind::ranks, ready_);
  {
    const auto go_back = [this](void*) { queue_on_(StreamKind::kernels); };
    const std::unique_ptr<void, decltype(go_back)> at_end(this, go_back);
    queue_on_(StreamKind::ranks);
    queue();
  }
  if (unused_.empty()) unused_.push_back(streams_.make_event());
  Started& started = started_.emplace_back();
  started.end = unused_.back();
  started.ranks = ranks;
  unused_.pop_back();
  for (const auto& list : {operands.inputs, operands.outputs})
    started.operands.insert(started.operands.end(), list.begin(), list.end());
  streams_.record(started.end, StreamKind::ranks);
}

void StartedExchanges::finish(std::span<void* const> operands) {
  std::size_t count = started_.size();
  const auto uses_one = [&](const Started& started) {
    return std::any_of(operands.begin(), operands.end(), [&](void* operand) {
      return std::find(started.operands.begin(), started.operands.end(), operand) != started.operands.end();
    });
  };
  while (count > 0 && !uses_one(started_[count - 1])) --count;
  wait_for(count);
}

void StartedExchanges::finish(const RankGroup& ranks) {
  std::size_t count = started_.size();
  while (count > 0 && started_[count - 1].ranks != ranks) --count;
  wait_for(count);
}

void StartedExchanges::wait_for(std::size_t count) {
  if (count == 0) return;
  streams_.wait(StreamKind::kernels, started_[count - 1].end);
  for (std::size_t i = 0; i < count; ++i) unused_.push_back(started_[i].end);
  started_.erase(started_.begin(), started_.begin() + static_cast<std::ptrdiff_t>(count));
}

std::unique_ptr<Kernel> make_exchange(const Op& op, std::unique_ptr<Kernel> exchange, CudaContext& context) {
  StartedExchanges& started = *context.exchanges;
  const RankGroup ranks = ranks_of_link(op, context.sums);
  if (is_started(op))
    return make_kernel([&started, ranks, exchange = std::move(exchange)](const OperandAddresses& addresses) {
      started.start(ranks, addresses, [&] { exchange->run(addresses); });
    });
  return make_kernel([&started, ranks, exchange = std::move(exchange)](const OperandAddresses& addresses) {
    started.finish(ranks);
    exchange->run(addresses);
  });
}

std::unique_ptr<Kernel> make_finish_exchange_kernel(const Op&, CudaContext& context) {
  return make_kernel([&context](const OperandAddresses& addresses) { context.exchanges->finish(addresses.inputs); });
}

}  // namespace trainer::cuda
