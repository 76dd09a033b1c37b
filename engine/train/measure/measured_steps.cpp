#include "engine/train/measure/measured_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/train/fresh_state.h"
#include "engine/train/training_loop.h"

namespace trainer {
namespace {

/// Notes what the steps and evaluations of a loop held, and interrupts it behind the last that is asked for.
class MemoryRecorder final : public EventSink {
 public:
  MemoryRecorder(Session& session, std::int64_t num_steps) : session_(session), num_steps_(num_steps) {
    measured_.used_before = session.device().ask_used_bytes();
  }

  void note_load() { note(0, false, session_.executor().memory()); }
  void take(const Event& event) override {
    if (const auto* step = std::get_if<StepEvent>(&event)) note(*step);
    if (const auto* evaluation = std::get_if<EvalEvent>(&event)) note(*evaluation);
  }

  const Interruption& interruption() const { return interruption_; }
  MeasuredSteps take() { return std::move(measured_); }

 private:
  void note(const StepEvent& event) {
    // Others may have been queued ahead of the interruption.
    if (event.step > num_steps_) return;
    note(event.step, false, event.memory.step);
    if (event.step == num_steps_ && !session_.schedule().step(event.step).evaluates) interruption_.requests = 1;
  }
  void note(const EvalEvent& event) {
    note(event.step, true, event.memory.step);
    if (event.step == num_steps_) interruption_.requests = 1;
  }
  void note(std::int64_t step, bool evaluation, const StepMemory& memory) {
    measured_.steps.push_back({step, evaluation, memory});
    measured_.used_highest = std::max(measured_.used_highest, session_.device().ask_used_bytes());
  }

  Session& session_;
  const std::int64_t num_steps_;
  Interruption interruption_;
  MeasuredSteps measured_;
};

}  // namespace

MeasuredSteps measure_steps(const CompiledExperiment& compiled, const LoadedData& data, Device& device,
                            std::int64_t capacity, std::int64_t num_steps) {
  Session session(compiled, data, device, capacity);
  MemoryRecorder recorder(session, num_steps);
  load_fresh_state(session.executor(), compiled.experiment);
  recorder.note_load();
  RunProgress progress;
  progress.state.evaluated = !compiled.schedule.evaluates_initially();
  const TrainingOptions options;
  TrainingLoop loop(session, options, recorder.interruption(), recorder, progress, nullptr);
  if (loop.run() == RunStatus::diverged) {
    throw Error(ExitCode::diverged,
                fmt::format("the run diverges behind step {}, so that its first {} cannot be measured; a lower "
                            "optimizer.lr may keep it finite",
                            progress.state.step, num_steps));
  }
  return recorder.take();
}

}  // namespace trainer
