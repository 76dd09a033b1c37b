#include "engine/train/measure/range_test_run.h"

#include <chrono>
#include <optional>
#include <utility>

#include "engine/plan/process_memory.h"
#include "engine/train/files/frozen_weights.h"
#include "engine/train/files/weights_loading.h"
#include "engine/train/fresh_state.h"
#include "engine/train/training_loop.h"

namespace trainer {
namespace {

/// Takes the losses of a loop, and interrupts it behind the last one that is asked for.
class RangeTestSink final : public EventSink {
 public:
  RangeTestSink(RangeTestRun& run, Interruption& interruption, const std::function<void(const RangeTest&)>& on_step)
      : run_(run), interruption_(interruption), on_step_(on_step) {}

  void take(const Event& event) override {
    const auto* step = std::get_if<StepEvent>(&event);
    if (step == nullptr || has_ended_) return;  // others may have been queued ahead of the interruption
    run_.skipped_updates += step->skipped ? 1 : 0;
    has_ended_ = !run_.test.add(step->loss);
    if (on_step_) on_step_(run_.test);
    if (has_ended_) interruption_.requests = 1;
  }

  bool has_ended() const { return has_ended_; }

 private:
  RangeTestRun& run_;
  Interruption& interruption_;
  const std::function<void(const RangeTest&)>& on_step_;
  bool has_ended_ = false;
};

}  // namespace

Experiment with_range_test(Experiment experiment, std::int64_t num_steps) {
  experiment.train.steps = num_steps + 1;
  experiment.train.eval_every = num_steps + 1;
  experiment.train.early_stopping = {};
  experiment.schedule = {};
  experiment.average = {};
  return experiment;
}

RangeTestRun run_range_test(const CompiledExperiment& compiled, const LoadedData& data, Device& device,
                            std::int64_t capacity, const WeightFiles* weights, const RangeTestOptions& options,
                            Interruption& interruption, const std::function<void(const RangeTest&)>& on_step) {
  require_internal(compiled.schedule.total_steps() > options.steps, "the schedule has room for the test");
  const Program& program = compiled.program;
  const Experiment& experiment = compiled.experiment;
  std::optional<WeightsMatch> match;
  if (weights != nullptr) {
    match = match_weights(experiment.weights, *weights, program);
    require_match(*match);
  }
  const FrozenWeights frozen(experiment, program);
  frozen.require_matches();

  RangeTestRun run{.test = RangeTest(options)};
  Session session(compiled, data, device, capacity);
  Executor& executor = session.executor();
  load_fresh_state(executor, experiment);
  PieceMemory memory(largest_saved_piece(program));
  if (match) load_weights(*match, *weights, executor, memory);
  frozen.load(executor, memory);
  follow_parameters(executor);
  device.synchronize();

  RangeTestSink sink(run, interruption, on_step);
  RunProgress progress;
  TrainingOptions training;
  training.learning_rate = [&](std::int64_t step) { return range_test_rate(options, step); };
  TrainingLoop loop(session, training, interruption, sink, progress, nullptr);
  const auto begin = std::chrono::steady_clock::now();
  const RunStatus status = loop.run();
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!sink.has_ended()) {
    if (status == RunStatus::diverged)
      run.test.end_not_finite();
    else
      run.test.interrupt();
  }
  run.memory = highest_of(executor.memory(), executor.run_peak());
  return run;
}

}  // namespace trainer
