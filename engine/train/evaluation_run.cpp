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

/// Brings the logits of each batch to the host, beside its targets.
class LogitsWatch final : public EvaluationWatch {
 public:
  /// Without losses samples are counted alone.
  LogitsWatch(Executor& executor, SampleLosses* losses, const std::function<void(std::int64_t)>& on_batch)
      : executor_(executor), losses_(losses), on_batch_(on_batch) {
    if (losses_ == nullptr) return;
    const TensorType& largest = type_of(program().kept_predictions.front());
    bytes_.resize(static_cast<std::size_t>(largest.num_bytes()));
    numbers_.resize(static_cast<std::size_t>(largest.num_elements()));
  }

  void begin(const HostBatch& batch) override {
    batch_size_ = batch.num_samples;
    num_samples_ += batch_size_;
    if (losses_ == nullptr) return;
    const Routine& routine = evaluation_of(program(), batch_size_);
    place_ = static_cast<std::size_t>(&routine - program().evaluations.data());
    const std::int64_t num_bytes = program().buffers[routine.fields.back()].num_bytes;
    targets_.assign(batch.fields.back(), batch.fields.back() + num_bytes);
  }

  void end() override {
    if (losses_ != nullptr) {
      const BufferId buffer = program().kept_predictions[place_];
      executor_.read(buffer, bytes_.data());
      const std::int64_t count = type_of(buffer).num_elements();
      widen(type_of(buffer).dtype, bytes_.data(), numbers_.data(), count);
      losses_->add(std::span<const float>(numbers_).first(static_cast<std::size_t>(count)), targets_.data(),
                   batch_size_);
    }
    if (on_batch_) on_batch_(num_samples_);
  }

 private:
  const Program& program() const { return executor_.program(); }
  const TensorType& type_of(BufferId buffer) const { return program().buffers[buffer].type; }

  Executor& executor_;
  SampleLosses* const losses_;
  const std::function<void(std::int64_t)>& on_batch_;
  std::vector<std::byte> bytes_, targets_;
  std::vector<float> numbers_;
  std::size_t place_ = 0;  ///< of the batch's routine
  std::int64_t batch_size_ = 0, num_samples_ = 0;
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
                             std::int64_t num_worst, Interruption& interruption,
                             const std::function<void(std::int64_t num_samples)>& on_batch) {
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

  SampleLosses losses(compiled.experiment, data.description, num_worst);
  const bool looks_at_samples = num_worst > 0 && !program.kept_predictions.empty() && losses.has_any_term();
  LogitsWatch watch(executor, looks_at_samples ? &losses : nullptr, on_batch);
  TrainingOptions options;
  options.evaluation_watch = &watch;
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
