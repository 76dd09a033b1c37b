#include "cli/terminal/planning_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal/terminal.h"

namespace trainer {

PlanningProgress::PlanningProgress(bool shows)
    : shows_(shows && can_redraw(stderr)), signals_(interruption_, "\nStopping; once more to stop at once.\n") {}

PlanningProgress::~PlanningProgress() { erase(); }

bool PlanningProgress::is_interrupted() {
  if (interruption_.requests > 0) {
    erase();
    return true;
  }
  const Clock::time_point now = Clock::now();
  const bool is_long = now - begin_ >= std::chrono::seconds(1);
  if (shows_ && is_long && now - last_draw_ >= std::chrono::milliseconds(100)) draw();
  return false;
}

void PlanningProgress::planned(std::int64_t value, bool fits) {
  what_ = format_count(value);
  if (fits) largest_fitting_ = std::max(largest_fitting_.value_or(value), value);
}

void PlanningProgress::draw() {
  erase();
  last_draw_ = Clock::now();
  std::string text = fmt::format("planning{} ({:.0f} s)", what_.empty() ? "" : ' ' + what_,
                                 std::chrono::duration<double>(last_draw_ - begin_).count());
  if (largest_fitting_) text += fmt::format(": {} fits", format_count(*largest_fitting_));
  text += "; Ctrl-C ends it with what is known";
  const auto width = static_cast<std::size_t>(std::max(terminal_width(stderr) - 1, 1));
  is_drawn_ = write_text(stderr, paint(style_for(stderr), Ink::dim, cut_to_width(text, width)));
}

void PlanningProgress::erase() {
  if (is_drawn_) write_exactly(stderr, erased_line);
  is_drawn_ = false;
}

}  // namespace trainer
