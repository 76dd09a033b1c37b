#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/report/memory/out_of_memory_report.h"
#include "engine/report/text/style.h"
#include "engine/train/events.h"
#include "engine/train/files/run_directory.h"

namespace trainer {

/// Tells on stderr what goes wrong in a run, also where stdout is quiet: the out-of-memory report, what the run was
/// adapted to, warnings, where the loss stopped being finite. Brief, where the machine interface carries the whole. The
/// end of an out-of-memory report is told at the end of the run: what to do is what stands last on the screen.
class FailureSink final : public EventSink {
 public:
  struct Options {
    std::string config_path;  ///< as the run was started
    std::vector<std::string> overrides;
    std::string from_stage, until_stage;
    std::int64_t rank = 0;                 ///< of the others than rank 0 only what they alone can tell is told
    std::function<bool()> is_told_before;  ///< whether another rank tells of an out-of-memory
    bool brief = false;
    bool full = false;  ///< the out-of-memory report whole, and not only in its file
    RunDirectory directory;
    Style style;
    std::function<std::vector<std::string>()> layer_labels;  ///< asked only for a report
    /// What the output folder holds; asked only for a report. `planned`: the run has not begun.
    std::function<OutOfMemoryReportOptions::Holds(bool planned)> output_holds;
  };
  explicit FailureSink(Options options) : options_(std::move(options)) {}

  void take(const Event& event) override;

  /// Once the run is over: leaves the whole report of an out-of-memory in the run's folder, whichever run that now
  /// holds.
  void leave_report() const;

 private:
  void note(const StartEvent& event);
  void note(const StageEvent& event);
  bool is_behind_checkpoint(const OutOfMemoryEvent& event) const;
  void tell(const OutOfMemoryEvent& event);
  void tell(const AdaptEvent& event) const;
  void tell(const WarningEvent& event) const;
  void tell(const DivergedEvent& event) const;

  Options options_;
  std::string report_;  ///< of an out-of-memory, whole
  std::string ending_;  ///< of it, to be told yet
  std::string device_ = "cpu";
  bool adapts_ = false;                                      ///< memory.on_oom: adapt
  std::string against_divergence_ = "a lower optimizer.lr";  ///< what may help, of what is not set
  const Experiment* experiment_ = nullptr;                   ///< of the run
  std::string stage_;                                        ///< that is trained
  int num_stages_ = 0;                                       ///< begun so far
  bool saved_in_stage_ = false;
};

}  // namespace trainer
