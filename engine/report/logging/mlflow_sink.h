#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/logging/live_scalars.h"
#include "engine/report/logging/step_thinning.h"
#include "engine/train/events.h"

namespace trainer {

/// Writes the run into a folder of MLflow (Note [MLflow's file store] in mlflow_files.h): an experiment for the
/// configuration's name, a run for its output folder, parameters as the HPARAMS tab has them, metrics of the steps that
/// Note [Thinned steps] takes and of evaluations but for those of single classes, and the resolved configuration. A
/// resumed run goes on in the run that <output>/mlflow_run.txt names, without what it will tell again; a run that does
/// not fit, and leaves what the output folder holds, writes nothing.
///
/// Metrics are in their files about a second after they were told, and before a checkpoint is. A run that cannot be
/// begun there is a DataError; of what can no longer be written `warn` is told once, nothing more is, and training goes
/// on.
class MlflowSink final : public EventSink {
 public:
  /// `output`: the run's folder.
  MlflowSink(std::string store, std::string output, std::vector<std::string> overrides,
             std::function<void(const std::string&)> warn);

  void take(const Event& event) override;
  void make_durable() override;

 private:
  using Clock = std::chrono::steady_clock;

  void begin(const StartEvent& event);
  /// Whether the run of the output folder's file is there, and goes on.
  bool find_former_run(const std::string& experiment_id, std::int64_t last_step);
  void write_meta(int status, std::int64_t end_time) const;
  void write_parameters(const StartEvent& event) const;
  void note(const StepEvent& event);
  void write_waiting();
  void add(std::int64_t step, std::span<const LiveScalar> scalars);
  void flush(bool is_urgent);
  void write_metrics();
  void fail(const std::string& problem);

  const std::string store_, output_;
  const std::vector<std::string> overrides_;
  const std::function<void(const std::string&)> warn_;
  std::string folder_;  ///< of the run; empty before the start, and once nothing more is written
  std::string experiment_id_, run_id_;
  std::int64_t start_time_ = 0;  ///< milliseconds since 1970
  StepThinning thinning_;
  LiveScalars scalars_;
  std::map<std::string, std::string, std::less<>> unwritten_;  ///< lines, by metric
  Clock::time_point last_write_;
};

}  // namespace trainer
