#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/interrupt_signals.h"
#include "engine/plan/search/planning_watch.h"
#include "engine/train/training_run.h"

namespace trainer {

/// Shows on a terminal, from the first second on, what is being planned, and lets SIGINT end it with what is known.
/// Where stderr is no terminal it shows nothing.
class PlanningProgress final : public PlanningWatch {
 public:
  /// `shows`: somebody reads more than the answer.
  explicit PlanningProgress(bool shows);
  ~PlanningProgress() override;

  bool is_interrupted() override;
  void plans_for(const std::string& what) override { what_ = what; }
  void planned(std::int64_t value, bool fits) override;

  /// The largest value that was seen to fit.
  std::optional<std::int64_t> largest_fitting() const { return largest_fitting_; }

 private:
  using Clock = std::chrono::steady_clock;

  void draw();
  void erase();

  const bool shows_;
  bool is_drawn_ = false;
  std::string what_;
  std::optional<std::int64_t> largest_fitting_;
  Interruption interruption_;
  InterruptSignals signals_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_draw_ = begin_;
};

}  // namespace trainer
