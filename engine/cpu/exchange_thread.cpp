#include "engine/cpu/exchange_thread.h"

#include <utility>

#include "engine/device/thread_limit.h"

namespace trainer {

ExchangeThread::~ExchangeThread() {
  drop();
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ExchangeThread::prepare() {
  if (!thread_.joinable()) thread_ = start_thread([this] { work(); });
}

void ExchangeThread::start(CpuKernel& kernel, const OperandAddresses& addresses) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (const auto num_places = std::ssize(places_); num_started_ - num_ended_ == num_places) {
      // What waits or runs keeps its number, and finds its place by it among more of them.
      std::vector<Exchange> more(static_cast<std::size_t>(num_places) * 2 + 2);
      for (std::int64_t number = num_ended_; number < num_started_; ++number)
        std::swap(more[static_cast<std::size_t>(number) % more.size()], place_of(number));
      places_.swap(more);
    }
    Exchange& exchange = place_of(num_started_);
    exchange.kernel = &kernel;
    exchange.inputs.assign(addresses.inputs.begin(), addresses.inputs.end());
    exchange.outputs.assign(addresses.outputs.begin(), addresses.outputs.end());
    exchange.workspace = addresses.workspace;
    ++num_started_;
  }
  changed_.notify_all();
}

void ExchangeThread::drop() noexcept {
  std::unique_lock lock(mutex_);
  if (num_started_ > num_begun_ && !failure_)
    failure_ = std::make_exception_ptr(InternalError("internal error: an exchange was dropped"));
  num_started_ = num_begun_;
  changed_.wait(lock, [&] { return num_ended_ == num_begun_; });
}

void ExchangeThread::finish(std::int64_t num_left) {
  std::unique_lock lock(mutex_);
  const std::int64_t last = num_started_ - num_left;
  while (num_ended_ < last && !failure_) {
    // Whoever would wait for one that has not begun is as fit to run it.
    if (num_begun_ == num_ended_)
      run_next(lock);
    else
      changed_.wait(lock);
  }
  if (failure_) std::rethrow_exception(failure_);
}

void ExchangeThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [&] { return is_closed_ || (num_begun_ == num_ended_ && num_begun_ < num_started_ && !failure_); });
    if (is_closed_) return;
    run_next(lock);
  }
}

void ExchangeThread::run_next(std::unique_lock<std::mutex>& lock) {
  // Swapped out: places may move while it runs.
  Exchange exchange;
  std::swap(exchange, place_of(num_begun_));
  ++num_begun_;
  lock.unlock();
  std::exception_ptr failure;
  try {
    exchange.kernel->run({.inputs = exchange.inputs, .outputs = exchange.outputs, .workspace = exchange.workspace}, {});
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  std::swap(exchange, place_of(num_ended_));
  ++num_ended_;
  if (failure && !failure_) failure_ = failure;
  changed_.notify_all();
}

namespace {

class StartedKernel final : public CpuKernel {
 public:
  StartedKernel(std::unique_ptr<CpuKernel> kernel, const CpuContext& context)
      : kernel_(std::move(kernel)), context_(context) {
    if (context.exchanges != nullptr) context.exchanges->prepare();
  }
  void run(const OperandAddresses& addresses, const StepScalars&) override {
    if (context_.exchanges == nullptr) return kernel_->run(addresses, {});  // of one rank
    context_.exchanges->start(*kernel_, addresses);
  }

 private:
  const std::unique_ptr<CpuKernel> kernel_;
  const CpuContext& context_;
};

class BehindStarted final : public CpuKernel {
 public:
  BehindStarted(std::unique_ptr<CpuKernel> kernel, const CpuContext& context)
      : kernel_(std::move(kernel)), context_(context) {}
  void run(const OperandAddresses& addresses, const StepScalars& scalars) override {
    if (context_.exchanges != nullptr) context_.exchanges->finish(0);
    kernel_->run(addresses, scalars);
  }

 private:
  const std::unique_ptr<CpuKernel> kernel_;
  const CpuContext& context_;
};

std::unique_ptr<CpuKernel> make_finish_exchange_kernel(const Op& op, CpuContext& context) {
  return make_kernel([num_left = attributes_of<FinishExchangeAttributes>(op).num_left, &context](
                         const OperandAddresses&, const StepScalars&) {
    if (context.exchanges != nullptr) context.exchanges->finish(num_left);
  });
}

}  // namespace

std::unique_ptr<CpuKernel> make_exchange(const Op& op, std::unique_ptr<CpuKernel> kernel, const CpuContext& context) {
  if (is_started(op)) return std::make_unique<StartedKernel>(std::move(kernel), context);
  return std::make_unique<BehindStarted>(std::move(kernel), context);
}

int threads_of_exchange(const Op& op, const CpuContext& context) { return is_started(op) ? 1 : context.num_threads; }

const CpuOp finish_exchange_on_cpu = {make_finish_exchange_kernel, takes_16_bit};

}  // namespace trainer
