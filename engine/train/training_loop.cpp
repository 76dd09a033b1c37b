#include "engine/train/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/config/load_experiment.h"
#include "engine/train/non_finite_search.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

SamplerOptions sampler_options(const Experiment& experiment, const LoadedData& data, const RunSchedule& schedule) {
  return {.num_samples = data.train->size(),
          .batch_size = schedule.batch_size(),
          .shuffle = experiment.data.shuffle,
          .drop_last = experiment.data.drop_last,
          .seed = experiment.seed};
}

/// Waits at its end for the copy of a batch, before the memory of that batch goes.
class StagingEnd {
 public:
  explicit StagingEnd(Executor& executor) : executor_(executor) {}
  ~StagingEnd() {
    try {
      executor_.finish_staging();
    } catch (const Error&) {  // the device is lost, and nothing is copied any more
    }
  }
  StagingEnd(const StagingEnd&) = delete;
  StagingEnd& operator=(const StagingEnd&) = delete;

 private:
  Executor& executor_;
};

}  // namespace

TrainingLoop::TrainingLoop(const Experiment& experiment, const LoadedData& data, const RunSchedule& schedule,
                           Executor& executor, const RunDirectory& directory, const TrainingOptions& options,
                           const Interruption& interruption, EventSink& events)
    : experiment_(experiment),
      data_(data),
      schedule_(schedule),
      executor_(executor),
      program_(executor.program()),
      directory_(directory),
      options_(options),
      interruption_(interruption),
      events_(events),
      sampler_(sampler_options(experiment, data, schedule)),
      device_total_(executor.device().total_bytes()) {
  if (experiment.loss.type == LossType::cross_entropy) {
    class_weights_.assign(experiment.loss.class_weights.begin(), experiment.loss.class_weights.end());
  }
  results_memory_ = executor.device().make_host_memory(2 * static_cast<std::int64_t>(sizeof(StepResult)));
}

TrainingLoop::~TrainingLoop() {
  try {
    executor_.device().synchronize();  // copies from and to the host memory held here
  } catch (const Error&) {             // the device is lost, and nothing is copied any more
  }
}

RunStatus TrainingLoop::run(const TrainingState& state) {
  state_ = state;
  if (state.step > 0) {
    saved_step_ = state.step;
    saved_evaluated_ = state.evaluated;
  }
  if (state_.step < schedule_.total_steps()) {
    const RunSchedule::Step next = schedule_.step(state_.step + 1);
    BatchReaderOptions options = reader_options();
    options.start = {.epoch = next.epoch, .batch = next.first_batch};
    reader_ = std::make_unique<BatchReader>(*data_.train, sampler_, options);
  }
  if (program_.loss_scale >= 0) {
    LossScaleState scale{};
    executor_.read(program_.loss_scale, scale.data());
    skipped_before_ = scale[loss_scale_skipped];
  }
  last_finish_ = Clock::now();
  const RunStatus status = run_steps();
  executor_.finish_staging();
  reader_.reset();
  return status;
}

RunStatus TrainingLoop::run_steps() {
  const auto interrupted = [&] { return interruption_.requests.load() > 0; };
  if (!state_.evaluated && !interrupted() && !evaluate()) return RunStatus::diverged;
  while (state_.step < schedule_.total_steps() && !stops_early()) {
    if (interrupted() && queued_.empty()) break;
    if (!train_next_step()) return RunStatus::diverged;
    const RunSchedule::Step step = schedule_.step(state_.step);
    state_.evaluated = !step.evaluates;
    const std::int64_t best_before = state_.best_step;
    if (step.evaluates && !interrupted() && !evaluate()) return RunStatus::diverged;
    const bool is_new_best = state_.best_step != best_before;
    if ((is_new_best || checkpoint_is_due(state_.step, step)) && !save()) return RunStatus::diverged;
  }
  stopped_early_ = stops_early() && state_.step < schedule_.total_steps();
  if ((saved_step_ != state_.step || saved_evaluated_ != state_.evaluated) && !save()) return RunStatus::diverged;
  const bool is_done = stopped_early_ || (state_.step >= schedule_.total_steps() && state_.evaluated);
  return is_done ? RunStatus::done : RunStatus::interrupted;
}

BatchReaderOptions TrainingLoop::reader_options() const {
  Device& device = executor_.device();
  return {.make_memory = [&device](std::int64_t num_bytes) { return device.make_host_memory(num_bytes); }};
}

BatchReader TrainingLoop::read_validation() const {
  const Sampler sampler({.num_samples = data_.validation->size(), .batch_size = schedule_.eval_batch_size()});
  BatchReaderOptions options = reader_options();
  options.endless = false;
  return BatchReader(*data_.validation, sampler, options);
}

bool TrainingLoop::evaluate() {
  const Clock::time_point begin = Clock::now();
  executor_.begin_step(state_.step);
  BatchReader reader = read_validation();
  const StagingEnd staging_end(executor_);
  StepScalars scalars;
  scalars.seed = experiment_.seed;
  std::int64_t samples = 0;
  const HostBatch* batch = reader.next();
  if (batch != nullptr) executor_.stage(evaluation_of(batch->num_samples), *batch);
  while (batch != nullptr) {
    // An interrupted evaluation is made up for by the run that resumes.
    if (interruption_.requests.load() > 0) return true;
    const std::array<const Routine*, 1> routine = {&evaluation_of(batch->num_samples)};
    executor_.lay_out(routine);
    if (samples == 0) executor_.clear(program_.loss_statistics);
    executor_.queue(0, 1, scalars, batch);
    samples += batch->num_samples;
    if (program_.staged_batch >= 0)
      executor_.finish_staging();
    else
      executor_.device().synchronize();
    batch = reader.next();
    if (batch != nullptr) executor_.stage(evaluation_of(batch->num_samples), *batch);
  }
  const LossSummary summary = summarize(read_statistics());
  if (!std::isfinite(summary.loss)) {
    events_.on_diverged(locate_in_evaluation(summary.loss));
    return false;
  }
  state_.evaluated = true;
  last_evaluation_ = summary;

  EvalEvent event;
  event.step = state_.step;
  event.epoch = state_.step > 0 ? schedule_.step(state_.step).epoch + 1 : 1;
  event.loss = summary.loss;
  event.accuracy = summary.accuracy;
  event.top5 = summary.top5;
  event.samples = samples;
  event.best = note_evaluation(summary);
  event.memory = measure();
  event.seconds = seconds_since(begin);
  events_.on_eval(event);
  last_finish_ = Clock::now();
  return true;
}

/// Whether it is the best so far.
bool TrainingLoop::note_evaluation(const LossSummary& summary) {
  const bool by_accuracy = experiment_.checkpoint.best == Metric::accuracy && summary.accuracy;
  const double value = by_accuracy ? *summary.accuracy : summary.loss;
  const auto improves = [&](const std::optional<double>& on, double min_delta) {
    return !on || (by_accuracy ? value > *on + min_delta : value < *on - min_delta);
  };
  if (improves(state_.stopping_value, experiment_.train.early_stopping.min_delta)) {
    state_.stopping_value = value;
    state_.evaluations_without_improvement = 0;
  } else {
    ++state_.evaluations_without_improvement;
  }
  if (!improves(state_.best_value, 0)) return false;
  state_.best_value = value;
  state_.best_step = state_.step;
  return true;
}

bool TrainingLoop::stops_early() const {
  const std::int64_t patience = experiment_.train.early_stopping.patience;
  return patience > 0 && state_.evaluations_without_improvement >= patience;
}

bool TrainingLoop::checkpoint_is_due(std::int64_t number, const RunSchedule::Step& step) const {
  const std::int64_t every = experiment_.checkpoint.every;
  if (every <= 0) return false;
  if (experiment_.checkpoint.every_in_epochs) return step.ends_epoch && (step.epoch + 1) % every == 0;
  return number % every == 0;
}

bool TrainingLoop::save() {
  const std::int32_t non_finite = write_checkpoint();
  if (non_finite < 0) return true;
  const Parameter& parameter = program_.parameters[static_cast<std::size_t>(non_finite)];
  events_.on_diverged({state_.step, last_loss_, program_.layer_label(parameter.layer), parameter.name});
  return false;
}

std::int32_t TrainingLoop::write_checkpoint() {
  const Clock::time_point begin = Clock::now();
  const SavedCheckpoint saved =
      save_checkpoint(directory_.checkpoints_path(), state_, experiment_, options_.trainer_version, executor_);
  if (saved.non_finite_parameter >= 0) return saved.non_finite_parameter;
  if (!wrote_config_) {
    directory_.write_config(resolved_yaml(experiment_));
    wrote_config_ = true;
  }
  directory_.settle(state_.step, state_.best_value ? state_.best_step : -1, experiment_.checkpoint.keep);
  saved_step_ = state_.step;
  saved_evaluated_ = state_.evaluated;
  last_checkpoint_ = saved.path;
  last_finish_ = Clock::now();
  events_.on_checkpoint({.step = state_.step, .path = saved.path, .seconds = seconds_since(begin)});
  return -1;
}

void TrainingLoop::save_after_failure() {
  executor_.device().synchronize();
  reader_.reset();
  if (state_.step > 0 && (saved_step_ != state_.step || saved_evaluated_ != state_.evaluated)) write_checkpoint();
}

const Program::MicroBatch& TrainingLoop::micro_batch_of(std::int64_t batch_size) const {
  const auto found = std::find_if(program_.micro_batches.begin(), program_.micro_batches.end(),
                                  [&](const Program::MicroBatch& entry) { return entry.batch_size == batch_size; });
  require_internal(found != program_.micro_batches.end(), "every batch size has a routine");
  return *found;
}

const Routine& TrainingLoop::evaluation_of(std::int64_t batch_size) const {
  const auto found = std::find_if(program_.evaluations.begin(), program_.evaluations.end(),
                                  [&](const Routine& entry) { return entry.batch_size == batch_size; });
  require_internal(found != program_.evaluations.end(), "every evaluation batch size has a routine");
  return *found;
}

TrainingLoop::Statistics TrainingLoop::read_statistics() {
  Statistics statistics{};
  executor_.read(program_.loss_statistics, statistics.data());
  return statistics;
}

LossSummary TrainingLoop::summarize(const Statistics& statistics) const {
  LossSummary summary;
  const double weight = statistics[loss_weight];
  summary.loss = weight == 0 ? 0 * statistics[loss_sum] : statistics[loss_sum] / weight;  // what is not finite stays so
  const double counted = statistics[num_counted];
  if (experiment_.loss.type == LossType::mse || counted <= 0) return summary;
  summary.accuracy = statistics[num_correct] / counted;
  if (experiment_.loss.type == LossType::cross_entropy && data_.description.num_outputs > 5) {
    summary.top5 = statistics[num_correct_top5] / counted;
  }
  return summary;
}

DeviceMemory TrainingLoop::measure() {
  DeviceMemory memory;
  memory.step = executor_.memory();
  memory.device_used = measure_used();
  memory.device_total = device_total_;
  memory.num_alloc_retries = executor_.allocator().statistics().num_alloc_retries;
  return memory;
}

std::int64_t TrainingLoop::measure_used() {
  const std::int64_t used = executor_.device().used_bytes();
  peak_used_ = std::max(peak_used_, used);
  return used;
}

DivergedEvent TrainingLoop::locate_in_step(const RunSchedule::Step& step, const StepScalars& first_scalars,
                                           double loss) {
  DivergedEvent event{.step = state_.step + 1, .loss = loss, .layer = "loss", .tensor = "loss"};
  executor_.release_transient();  // the gradients
  BatchReaderOptions options = reader_options();
  options.start = {.epoch = step.epoch, .batch = step.first_batch};
  BatchReader reader(*data_.train, sampler_, options);
  StepScalars scalars = first_scalars;
  for (std::int64_t i = 0; i < step.num_micro_batches; ++i, ++scalars.pass) {
    const HostBatch* batch = reader.next();
    const Routine& routine = micro_batch_of(batch->num_samples).first;
    NonFiniteSearch search(executor_, routine);
    if (i > 0 || !search.search_parameters()) executor_.run(routine, scalars, batch, &search);
    executor_.release_transient();
    if (!search.found()) continue;
    event.layer = search.result().layer;
    event.tensor = search.result().tensor;
    break;
  }
  return event;
}

DivergedEvent TrainingLoop::locate_in_evaluation(double loss) {
  DivergedEvent event{.step = state_.step, .loss = loss, .layer = "loss", .tensor = "loss"};
  BatchReader reader = read_validation();
  StepScalars scalars;
  scalars.seed = experiment_.seed;
  bool is_first = true;
  while (const HostBatch* batch = reader.next()) {
    const Routine& routine = evaluation_of(batch->num_samples);
    NonFiniteSearch search(executor_, routine);
    if (!is_first || !search.search_parameters()) executor_.run(routine, scalars, batch, &search);
    executor_.release_transient();
    is_first = false;
    if (!search.found()) continue;
    event.layer = search.result().layer;
    event.tensor = search.result().tensor;
    break;
  }
  return event;
}

void TrainingLoop::fill(EndEvent& event) const {
  event.steps = state_.step;
  event.training_seconds = training_seconds_;
  event.samples = trained_samples_;
  if (last_evaluation_) {
    event.loss = last_evaluation_->loss;
    event.accuracy = last_evaluation_->accuracy;
    event.top5 = last_evaluation_->top5;
  }
  event.best_value = state_.best_value;
  event.best_step = state_.best_step;
  event.stopped_early = stopped_early_;
  event.skipped_updates = num_skipped_;
  event.peak_used = peak_used_;
  event.last_checkpoint = last_checkpoint_;
}

}  // namespace trainer
