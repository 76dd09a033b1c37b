#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "engine/train/events.h"

namespace trainer {

/// Which steps are written for tools that draw them. Note [Thinned steps]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// All of them, unless they come faster than ten a second: of those the first 1,000 of a process, and then the first
/// behind each tenth of a second of training. The last one before an evaluation, a checkpoint, a stage and the end is
/// written too. So a run of thousands of steps a second is not slowed down, and makes no files that no tool can draw;
/// events.jsonl has every step.
class StepThinning {
 public:
  static constexpr std::int64_t most_at_once = 1000;
  static constexpr double seconds_between = 0.1;

  /// Whether the step is written now; else it waits until another is taken.
  bool takes(const StepEvent& event) {
    seconds_ += event.seconds;
    if (num_taken_ >= most_at_once && seconds_ < seconds_between) {
      last_ = event;
      is_waiting_ = true;
      return false;
    }
    ++num_taken_;
    seconds_ = 0;
    is_waiting_ = false;
    return true;
  }
  /// The last step, where it waits: it is written now. Its stage's name is not there any more.
  const StepEvent* take_waiting() {
    if (!std::exchange(is_waiting_, false)) return nullptr;
    seconds_ = 0;
    last_.stage = {};
    return &last_;
  }

 private:
  std::int64_t num_taken_ = 0;
  double seconds_ = 0;  ///< of training, since the last that was taken
  StepEvent last_;
  bool is_waiting_ = false;
};

}  // namespace trainer
