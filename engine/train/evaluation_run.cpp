#include "engine/train/evaluation_run.h"

#include <utility>

#include "datasets/batch_reader.h"
#include "engine/half.h"
#include "engine/plan/process_memory.h"
#include "engine/plan/step_routines.h"
#include "engine/program/evaluation_program.h"
#include "engine/train/files/frozen_weights.h"
#include "engine/train/files/weights_loading.h"
#include "engine/train/parameter_init.h"
#include "engine/train/training_loop.h"

namespace trainer {
namespace {

class EvaluationSink final : public EventSink {
 public:
  explicit EvaluationSink(EvaluationRun& run) : run_(run) {}
  void take(const Event& event) override {
    if (const auto* evaluation = std::get_if<EvalEvent>(&event)) run_.evaluation = *evaluation;
    if (const auto* diverged = std::get_if<DivergedEvent>(&event)) run_.diverged = *diverged;
  }

 private:
  EvaluationRun& run_;
};

/// The logits of a batch that was queued, on the host.
class KeptLogits {
 public:
  explicit KeptLogits(Executor& executor) : executor_(executor) {
    if (!are_kept()) return;
    const TensorType& largest = type_of(program().kept_predictions.front());
    bytes_.resize(static_cast<std::size_t>(largest.num_bytes()));
    numbers_.resize(static_cast<std::size_t>(largest.num_elements()));
  }

  bool are_kept() const { return !program().kept_predictions.empty(); }
  std::span<const float> read(std::int64_t num_samples) {
    const auto place = static_cast<std::size_t>(&evaluation_of(program(), num_samples) - program().evaluations.data());
    const BufferId buffer = program().kept_predictions[place];
    executor_.read(buffer, bytes_.data());
    const std::int64_t count = type_of(buffer).num_elements();
    widen(type_of(buffer).dtype, bytes_.data(), numbers_.data(), count);
    return std::span<const float>(numbers_).first(static_cast<std::size_t>(count));
  }

 private:
  const Program& program() const { return executor_.program(); }
  const TensorType& type_of(BufferId buffer) const { return program().buffers[buffer].type; }

  Executor& executor_;
  std::vector<std::byte> bytes_;
  std::vector<float> numbers_;
};

}  // namespace

CompiledExperiment compile_for_evaluation(const Experiment& experiment, const DataDescription& data,
                                          const DeviceModel& device, std::int64_t num_worst) {
  Experiment evaluated = experiment;
  evaluated.train.steps = 0;
  Program program = compile_evaluation(evaluated, data, device, num_worst > 0);
  const RunSchedule schedule(evaluated, data);
  return {std::move(evaluated), data, std::move(program), schedule};
}

std::int64_t bytes_of_looked_at_logits(const Program& program) {
  if (program.kept_predictions.empty()) return 0;
  const TensorType& type = program.buffers[program.kept_predictions.front()].type;
  return type.num_bytes() + type.num_elements() * static_cast<std::int64_t>(sizeof(float));
}

EvaluationRun run_evaluation(const CompiledExperiment& compiled, const LoadedData& data, Device& device,
                             std::int64_t capacity, const WeightsMatch& match, const WeightFiles& files,
                             std::int64_t num_worst, Interruption& interruption) {
  require_internal(match.count(WeightsStatus::fresh) == 0, "what is evaluated has all its weights");
  const Program& program = compiled.program;
  const FrozenWeights frozen(compiled.experiment, program);
  frozen.require_matches();

  EvaluationRun run;
  Session session(compiled, data, device, capacity);
  Executor& executor = session.executor();
  executor.begin_step(0);
  executor.run(program.load, {});
  executor.clear(program.loss_statistics);
  write_frozen_constants(executor);
  PieceMemory memory(largest_saved_piece(program));
  load_weights(match, files, executor, memory);
  frozen.load(executor, memory);
  device.synchronize();

  KeptLogits logits(executor);
  SampleLosses losses(compiled.experiment, data.description, num_worst);
  TrainingOptions options;
  if (num_worst > 0 && logits.are_kept() && losses.has_any_term()) {
    options.on_evaluated = [&](const HostBatch& batch) {
      losses.add(logits.read(batch.num_samples), batch.fields.back(), batch.num_samples);
    };
  }
  EvaluationSink sink(run);
  RunProgress progress;
  progress.state.evaluated = false;
  TrainingLoop loop(session, options, interruption, sink, progress, nullptr);
  run.status = loop.run();
  run.worst = losses.highest();
  run.memory = highest_of(executor.memory(), executor.run_peak());
  return run;
}

}  // namespace trainer
