#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace trainer::cuda {

/// The order of a device with one stream of kernels and one of copies ahead, run as late as it may be.
class DeferredQueues {
 public:
  using Work = std::function<void()>;

  void add(Work work) { kernels_.push_back(std::move(work)); }
  /// Behind the copies ahead so far; the copies ahead that follow are behind it.
  void begin_pass(Work work);
  void copy_ahead(Work work);

  /// A mark behind all kernels so far.
  std::int64_t mark();
  /// Throws InternalError for a mark that 16 have followed.
  void wait_for(std::int64_t mark);
  void finish_copy_ahead();
  void synchronize();

 private:
  struct CopyAhead {
    std::int64_t behind;  // how many kernels come first
    Work work;
  };
  std::int64_t num_added() const { return num_run_ + static_cast<std::int64_t>(kernels_.size()); }
  void run_kernels_to(std::int64_t count);
  void run_copies_to(std::int64_t count);

  std::deque<Work> kernels_;
  std::int64_t num_run_ = 0;
  std::deque<CopyAhead> copies_;
  std::int64_t num_copied_ = 0;
  std::int64_t last_pass_ = 0;  // kernels up to it
  std::deque<std::int64_t> marks_;
};

}  // namespace trainer::cuda
