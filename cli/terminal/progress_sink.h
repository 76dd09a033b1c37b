#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/report/run/loss_curve.h"
#include "engine/report/text/style.h"
#include "engine/train/training_run.h"

namespace trainer {

/// The run as it goes on, on stdout. On a terminal a bar with what remains, redrawn in place; elsewhere a line every
/// `log_every` steps; nothing more once stdout cannot be written, since a run does not end with its reader. Both tell
/// step, loss, learning rate, samples/s, allocated (and its peak), reserved and used, and the share of the time that
/// training waited for samples, where it did.
class ProgressSink final : public EventSink {
 public:
  struct Options {
    bool redraws = false;        ///< stdout is a terminal that can
    std::int64_t log_every = 0;  ///< 0: some thirty lines a run, and one whenever ten seconds have passed
    Style style;
    const Interruption* interruption = nullptr;  ///< whose note on the terminal is not drawn over; may be null
    std::string event_file;                      ///< named in the summary
    bool finds_batch_size = false;               ///< train.batch_size is `auto`
    bool shows_all_weights = false;              ///< the whole table of what is loaded, however long
  };
  explicit ProgressSink(Options options) : options_(std::move(options)) {}

  void take(const Event& event) override;

 private:
  using Clock = std::chrono::steady_clock;

  void show(const StartEvent& event);
  void show(const StageEvent& event);
  void show(const StepEvent& event);
  void show(const EvalEvent& event);
  void show(const CheckpointEvent&) {}
  // Another sink tells of these, below the panel.
  void show(const OutOfMemoryEvent&) { leave_panel(); }
  void show(const AdaptEvent&) { leave_panel(); }
  void show(const WarningEvent&) { leave_panel(); }
  void show(const DivergedEvent&) { leave_panel(); }
  void show(const EndEvent& event);
  const char* counted_name() const { return start_.tokens_per_sample > 0 ? "tokens" : "samples"; }
  std::string step_line(const StepEvent& event) const;
  std::string panel(const StepEvent& event) const;
  void print_line(const std::string& line);
  void begin_interval();
  void draw(const StepEvent& event);
  void erase_panel();
  void leave_panel();
  void write(std::string_view text);
  void move(std::string_view sequence);
  void flush();

  Options options_;
  StartEvent start_;
  Clock::time_point start_time_, last_draw_, last_line_;
  std::int64_t log_every_ = 1;
  bool titled_ = false;
  bool interrupted_ = false;
  bool is_closed_ = false;
  int panel_lines_ = 0;  ///< of the panel that stands above the cursor
  StepEvent last_step_;
  LossCurve losses_;
  // Since the last line or drawing.
  std::int64_t counted_ = 0;  ///< samples; of a run on tokens these
  std::int64_t peak_allocated_ = 0;
  double seconds_ = 0, data_seconds_ = 0;
  // Since the run began.
  double run_seconds_ = 0, run_data_seconds_ = 0;
  // What the panel says of them, also when it is drawn again.
  std::string shown_rate_ = "-";
  std::int64_t shown_peak_ = 0;
};

/// A step count that gives about `lines` lines in `total` steps: 1, 2 or 5 times a power of ten.
std::int64_t sensible_log_interval(std::int64_t total, std::int64_t lines = 30);

}  // namespace trainer
