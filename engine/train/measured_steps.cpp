#include "engine/train/measured_steps.h"

#include <algorithm>
#include <array>
#include <memory>

#include "datasets/batch_reader.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/make_allocator.h"
#include "engine/plan/step_routines.h"
#include "engine/train/executor.h"
#include "engine/train/fresh_state.h"

namespace trainer {
namespace {

class Measurement {
 public:
  Measurement(const Experiment& experiment, const LoadedData& data, const Program& program, const RunSchedule& schedule,
              Device& device, std::int64_t capacity)
      : experiment_(experiment),
        data_(data),
        program_(program),
        schedule_(schedule),
        device_(device),
        source_(device.make_memory_source(capacity)),
        allocator_(make_allocator(program, *source_, allocator_options(experiment))),
        executor_(program, device, *allocator_,
                  {.replays = experiment.device.cuda_graph, .branches = experiment.device.branches}),
        reader_(*data.train,
                Sampler({.num_samples = data.train->size(),
                         .batch_size = schedule.batch_size(),
                         .shuffle = experiment.data.shuffle,
                         .drop_last = experiment.data.drop_last,
                         .seed = experiment.seed}),
                reader_options(true)) {
    scalars_.seed = experiment.seed;
  }
  ~Measurement() { executor_.release_all(); }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  MeasuredSteps measure(std::int64_t num_steps) {
    measured_.used_before = device_.ask_used_bytes();
    load_fresh_state(executor_, experiment_);
    note(0, false);
    for (std::int64_t number = 1; number <= std::min(num_steps, schedule_.total_steps()); ++number) {
      const RunSchedule::Step step = schedule_.step(number);
      train(number, step);
      note(number, false);
      if (!step.evaluates) continue;
      evaluate(number);
      note(number, true);
    }
    return std::move(measured_);
  }

 private:
  BatchReaderOptions reader_options(bool endless) {
    BatchReaderOptions options;
    options.endless = endless;
    options.make_memory = [this](std::int64_t num_bytes) { return device_.make_host_memory(num_bytes); };
    return options;
  }

  void note(std::int64_t step, bool evaluation) {
    measured_.steps.push_back({step, evaluation, executor_.memory()});
    measured_.used_highest = std::max(measured_.used_highest, device_.ask_used_bytes());
  }

  void train(std::int64_t number, const RunSchedule::Step& step) {
    std::vector<const Routine*> routines;
    for_each_step_routine(program_, step, [&](const Routine& routine) { routines.push_back(&routine); });
    executor_.begin_step(number);
    executor_.lay_out(routines);
    scalars_.update = number;
    scalars_.gradient_scale = 1.0F / static_cast<float>(step.num_samples);
    for (std::int64_t i = 0; i < step.num_micro_batches; ++i, ++scalars_.pass) {
      const HostBatch* batch = reader_.next();
      require_internal(batch != nullptr, "the reader of training data is endless");
      run(*routines[static_cast<std::size_t>(i)], static_cast<std::size_t>(i), i + 1 == step.num_micro_batches ? 2 : 1,
          *batch);
    }
  }

  void evaluate(std::int64_t number) {
    BatchReader reader(*data_.validation,
                       Sampler({.num_samples = data_.validation->size(), .batch_size = schedule_.eval_batch_size()}),
                       reader_options(false));
    executor_.begin_step(number);
    while (const HostBatch* batch = reader.next()) {
      const auto routine =
          std::find_if(program_.evaluations.begin(), program_.evaluations.end(),
                       [&](const Routine& candidate) { return candidate.batch_size == batch->num_samples; });
      require_internal(routine != program_.evaluations.end(), "every evaluation batch size has a routine");
      const std::array<const Routine*, 1> routines = {&*routine};
      executor_.lay_out(routines);
      run(*routine, 0, 1, *batch);
    }
  }

  /// The reader takes the batch back, so its copies are waited for.
  void run(const Routine& routine, std::size_t first, std::size_t count, const HostBatch& batch) {
    executor_.stage(routine, batch);
    executor_.queue(first, count, scalars_, &batch);
    executor_.finish_staging();
    device_.synchronize();
  }

  const Experiment& experiment_;
  const LoadedData& data_;
  const Program& program_;
  const RunSchedule& schedule_;
  Device& device_;
  std::unique_ptr<MemorySource> source_;
  std::unique_ptr<Allocator> allocator_;
  Executor executor_;
  BatchReader reader_;
  StepScalars scalars_;
  MeasuredSteps measured_;
};

}  // namespace

MeasuredSteps measure_steps(const Experiment& experiment, const LoadedData& data, const Program& program,
                            const RunSchedule& schedule, Device& device, std::int64_t capacity,
                            std::int64_t num_steps) {
  return Measurement(experiment, data, program, schedule, device, capacity).measure(num_steps);
}

}  // namespace trainer
