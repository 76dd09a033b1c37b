#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/report/record/run_record.h"
#include "engine/report/trace/trace_event_writer.h"

namespace trainer {

/// When a run's steps and evaluations took place, in nanoseconds from its first on: one after the other, each as long
/// as it took. Events tell no time of day, so that what lies between them (saving, a resumption) takes none here.
class RunTimes {
 public:
  explicit RunTimes(const RunRecord& run);

  struct Span {
    std::int64_t begin = 0, end = 0;
  };
  const Span& step(std::size_t position) const { return steps_[position]; }
  const Span& evaluation(std::size_t position) const { return evaluations_[position]; }
  std::int64_t whole() const { return whole_; }
  /// Where a number of steps was done; evaluations and what else stands behind the step come after it.
  std::int64_t behind_step(const RunRecord& run, std::int64_t step) const;
  /// Of a step, or of the evaluation behind it, that a plan tells: steps of a stage are counted from 1, those of a run
  /// go on from one stage to the next. Empty: without stages. Nothing where the run did not come so far.
  std::optional<Span> find(const RunRecord& run, const std::string& stage, std::int64_t step, bool is_evaluation) const;

 private:
  std::vector<Span> steps_, evaluations_;  ///< as RunRecord has them
  std::int64_t whole_ = 0;
};

/// Writes what a run measured, as one group: stages, epochs, steps with their waiting for data, and evaluations, one in
/// the other; what it saved, warned of and changed; and counters of loss, rates and memory, each from the beginning of
/// its step on.
void write_run_events(const RunRecord& run, const RunTimes& times, int group, TraceEventWriter& events);

}  // namespace trainer
