#pragma once

#include <cstdint>
#include <vector>

#include "engine/train/events.h"
#include "engine/train/executor.h"

namespace trainer {

/// Sees to it that steps and evaluations leave allocated what they found, which is what the program's load allocated.
/// What they leave behind is told by a warning, once for each buffer, and released, so that it does not add up. Where
/// nothing is left, looking costs two comparisons of integers.
///
/// `reserved` is not judged: what the allocator caches depends on all that was allocated before, and a resumed run, or
/// one whose device refused a segment, goes another way than its plan. Neither is `used`, where others have their
/// share.
class LeakWatch {
 public:
  /// `executor` has loaded its program. It and `events` must outlive the watch.
  LeakWatch(Executor& executor, EventSink& events);

  /// Once all routines of `step`, or a batch of the evaluation after it, are laid out.
  void look(std::int64_t step) {
    if (executor_.has_leftovers() || allocated() != steady_bytes_) tell(step);
  }
  std::int64_t num_warnings() const { return num_warnings_; }

 private:
  std::int64_t allocated() const { return executor_.allocator().statistics().allocated_bytes.all.current; }
  void tell(std::int64_t step);
  void warn(const WarningEvent& event);

  Executor& executor_;
  EventSink& events_;
  std::int64_t steady_bytes_;
  std::vector<char> was_told_;  ///< by buffer
  bool told_of_rest_ = false;
  std::int64_t num_warnings_ = 0;
};

}  // namespace trainer
