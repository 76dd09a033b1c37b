#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/cpu/kernels.h"

namespace trainer {

/// Runs started exchanges in their order beside the thread that computes (Note [Started exchanges] in
/// engine/ops/finish_exchange.h), or in that thread where it waits for one that has not begun.
class ExchangeThread {
 public:
  ExchangeThread() = default;
  /// Waits for what runs; what waits behind it is dropped.
  ~ExchangeThread();
  ExchangeThread(const ExchangeThread&) = delete;
  ExchangeThread& operator=(const ExchangeThread&) = delete;

  /// Makes the thread; throws DeviceError where the system starts none.
  void prepare();

  /// `kernel` must outlive its run, and is run by nobody else. Throws what an earlier one has failed with.
  void start(CpuKernel& kernel, const OperandAddresses& addresses);
  /// Returns once the last that was started with one of these operands has ended, and so those before it; throws what
  /// one of them has failed with.
  void finish(std::span<void* const> operands);
  /// Once all have.
  void finish_all();

  /// Waits for the one that runs, and drops what waits behind it: where something did, none runs any more.
  void drop() noexcept;

 private:
  /// With its operands, so that layouts may change while it waits.
  struct Exchange {
    CpuKernel* kernel = nullptr;
    std::vector<void*> inputs, outputs;
    void* workspace = nullptr;

    bool uses(std::span<void* const> operands) const;
  };

  /// Waits until so many have ended.
  void wait_for(std::int64_t count, std::unique_lock<std::mutex>& lock);
  void work();
  /// The next one; only where one waits and none runs, with the mutex locked.
  void run_next(std::unique_lock<std::mutex>& lock);
  Exchange& place_of(std::int64_t number) { return places_[static_cast<std::size_t>(number) % places_.size()]; }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Exchange> places_;  ///< of those that wait or run, by number; only grows
  Exchange running_;              ///< where one more has begun than ended
  std::int64_t num_started_ = 0, num_begun_ = 0, num_ended_ = 0;
  std::exception_ptr failure_;
  bool is_closed_ = false;
  std::thread thread_;
};

/// Starts `kernel` where `op` is to be started; else runs it behind all that were.
std::unique_ptr<CpuKernel> make_exchange(const Op& op, std::unique_ptr<CpuKernel> kernel, const CpuContext& context);

/// Threads that an exchange's kernel adds up with: those that compute go on beside one that is started.
int threads_of_exchange(const Op& op, const CpuContext& context);

}  // namespace trainer
