#include "engine/cpu/exchange_thread.h"

#include <algorithm>
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

bool ExchangeThread::Exchange::uses(std::span<void* const> operands) const {
  return std::any_of(operands.begin(), operands.end(), [&](void* operand) {
    return std::find(inputs.begin(), inputs.end(), operand) != inputs.end() ||
           std::find(outputs.begin(), outputs.end(), operand) != outputs.end();
  });
}

void ExchangeThread::finish(std::span<void* const> operands) {
  std::unique_lock lock(mutex_);
  std::int64_t count = num_started_;
  while (count > num_begun_ && !place_of(count - 1).uses(operands)) --count;
  if (count == num_begun_ && num_begun_ > num_ended_ && !running_.uses(operands)) --count;
  wait_for(count, lock);
}

void ExchangeThread::finish_all() {
  std::unique_lock lock(mutex_);
  wait_for(num_started_, lock);
}

void ExchangeThread::wait_for(std::int64_t count, std::unique_lock<std::mutex>& lock) {
  while (num_ended_ < count && !failure_) {
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
  std::swap(running_, place_of(num_begun_));
  ++num_begun_;
  lock.unlock();
  std::exception_ptr failure;
  try {
    running_.kernel->run({.inputs = running_.inputs, .outputs = running_.outputs, .workspace = running_.workspace}, {});
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  std::swap(running_, place_of(num_ended_));  // with its lists' memory
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
    if (context_.exchanges != nullptr) context_.exchanges->finish_all();
    kernel_->run(addresses, scalars);
  }

 private:
  const std::unique_ptr<CpuKernel> kernel_;
  const CpuContext& context_;
};

std::unique_ptr<CpuKernel> make_finish_exchange_kernel(const Op&, CpuContext& context) {
  return make_kernel([&context](const OperandAddresses& addresses, const StepScalars&) {
    if (context.exchanges != nullptr) context.exchanges->finish(addresses.inputs);
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
