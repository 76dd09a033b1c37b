#include "cuda/ops/started_exchanges.h"

#include "cuda/ops/kernels.h"

namespace trainer::cuda {

void StartedExchanges::start(const std::function<void()>& queue) {
  streams_.record(ready_, StreamKind::kernels);
  streams_.wait(StreamKind::ranks, ready_);
  {
    const auto go_back = [this](void*) { queue_on_(StreamKind::kernels); };
    const std::unique_ptr<void, decltype(go_back)> at_end(this, go_back);
    queue_on_(StreamKind::ranks);
    queue();
  }
  if (num_started_ == std::ssize(ends_)) ends_.push_back(streams_.make_event());
  streams_.record(ends_[static_cast<std::size_t>(num_started_++)], StreamKind::ranks);
}

void StartedExchanges::finish(std::int64_t num_left) {
  if (num_left >= num_started_) return;
  streams_.wait(StreamKind::kernels, ends_[static_cast<std::size_t>(num_started_ - num_left - 1)]);
  if (num_left == 0) num_started_ = 0;
}

std::unique_ptr<Kernel> make_exchange(const Op& op, std::unique_ptr<Kernel> exchange, StartedExchanges& started) {
  if (is_started(op))
    return make_kernel([&started, exchange = std::move(exchange)](const OperandAddresses& addresses) {
      started.start([&] { exchange->run(addresses); });
    });
  return make_kernel([&started, exchange = std::move(exchange)](const OperandAddresses& addresses) {
    started.finish(0);
    exchange->run(addresses);
  });
}

std::unique_ptr<Kernel> make_finish_exchange_kernel(const Op& op, CudaContext& context) {
  return make_kernel([num_left = attributes_of<FinishExchangeAttributes>(op).num_left,
                      &context](const OperandAddresses&) { context.exchanges->finish(num_left); });
}

}  // namespace trainer::cuda
