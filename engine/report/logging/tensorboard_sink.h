#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/logging/event_message.h"
#include "engine/report/logging/live_scalars.h"
#include "engine/report/logging/step_thinning.h"
#include "engine/report/logging/weight_histogram.h"
#include "engine/train/events.h"
#include "engine/train/weights_watch.h"

namespace trainer {

/// Writes <directory>/events.out.tfevents.<seconds>.trainer, which TensorBoard reads while the run goes on: scalars
/// (live_scalars.h) of the steps that Note [Thinned steps] takes and of all evaluations, the configuration and notes as
/// texts, what the HPARAMS tab compares, and histograms of weights.
///
/// Each process begins a file of its own, whose name sorts behind the former ones'. A new run removes those that its
/// folder has; one that resumes begins with what makes TensorBoard drop all that former files have of later steps
/// (SessionLog.START). A run that does not fit, and leaves what the folder holds, writes nothing.
///
/// Records are in the file about a second after they were told, and on the disk before a checkpoint is. A file that
/// cannot be begun is a DataError, since who asks for it would wait in vain; one that can no longer be written, as on a
/// full disk, is told by `warn` once, left alone, and ends no training: events.jsonl has it all.
class TensorBoardSink final : public EventSink, public WeightsWatch {
 public:
  /// `overrides`: what the HPARAMS tab compares beside run_parameters.h's.
  TensorBoardSink(std::string directory, std::vector<std::string> overrides,
                  std::function<void(const std::string&)> warn);
  ~TensorBoardSink() override = default;
  TensorBoardSink(const TensorBoardSink&) = delete;
  TensorBoardSink& operator=(const TensorBoardSink&) = delete;

  void take(const Event& event) override;
  void make_durable() override;
  void add(std::int64_t step, const std::string& tag, std::span<const float> numbers) override;
  void finish() override;

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  void begin(const StartEvent& event);
  void note(const StageEvent& event);
  void note(const StepEvent& event);
  void note(const EvalEvent& event);
  void note(const EndEvent& event);
  void note(std::int64_t step, const std::string& text);
  void write_waiting();
  void write_scalars(std::int64_t step, std::span<const LiveScalar> scalars);
  void write_histogram();
  void write(std::string_view event);
  /// Now, or where the last time was a second ago.
  void flush(bool is_urgent);
  void fail();

  std::string directory_, path_;
  std::vector<std::string> overrides_;
  std::function<void(const std::string&)> warn_;
  std::unique_ptr<std::FILE, CloseFile> file_;  ///< null before the start, and once nothing more is written
  std::chrono::steady_clock::time_point last_flush_;
  StepThinning thinning_;
  LiveScalars scalars_;
  ProtobufMessage event_;  ///< kept for its memory, as the next one is
  std::string record_;
  std::int64_t step_ = 0;  ///< that was told last
  std::optional<WeightHistogram> histogram_;
  std::string histogram_tag_;
  std::int64_t histogram_step_ = 0;
};

}  // namespace trainer
