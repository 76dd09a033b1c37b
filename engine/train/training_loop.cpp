#include "engine/train/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "engine/config/load_experiment.h"
#include "engine/plan/step_routines.h"
#include "engine/train/learning_rate.h"
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
  statistics_memory_ = executor.device().make_host_memory(2 * static_cast<std::int64_t>(sizeof(Statistics)));
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

bool TrainingLoop::train_next_step() {
  if (queued_.empty()) queue_step(state_.step + 1);
  if (may_queue_behind(queued_.front())) {
    try {
      queue_step(queued_.front().number + 1);
    } catch (const ProgramOutOfMemory&) {
      if (!finish_step()) return false;  // it counts, before the failure of the next one is told
      throw;
    }
  }
  return finish_step();
}

/// See Note [Running ahead].
bool TrainingLoop::may_queue_behind(const QueuedStep& queued) const {
  return executor_.device().runs_ahead() && queued_.size() == 1 && queued.number < schedule_.total_steps() &&
         !queued.step.evaluates && !checkpoint_is_due(queued.number, queued.step) && interruption_.requests.load() == 0;
}

void TrainingLoop::queue_step(std::int64_t number) {
  Device& device = executor_.device();
  const RunSchedule::Step step = schedule_.step(number);
  executor_.begin_step(number);
  routines_.clear();
  for_each_step_routine(program_, step, [&](const Routine& routine) { routines_.push_back(&routine); });
  executor_.lay_out(routines_);
  QueuedStep queued{.number = number, .step = step, .memory = measure()};

  StepScalars scalars;
  scalars.seed = experiment_.seed;
  std::int64_t pass = state_.pass;
  for (const QueuedStep& earlier : queued_) pass += earlier.step.num_micro_batches;
  scalars.pass = static_cast<std::uint32_t>(pass);
  // Where all samples are of classes of weight 0 there is nothing to learn from.
  const double loss_weight = loss_weight_of_step(step);
  scalars.gradient_scale = loss_weight > 0 ? static_cast<float>(1.0 / loss_weight) : 0.0F;
  scalars.learning_rate = learning_rate(experiment_.schedule, experiment_.optimizer.lr, number, schedule_.total_steps(),
                                        schedule_.steps_per_epoch());
  scalars.update = number;
  queued.first_scalars = scalars;
  for (std::int64_t i = 0; i < step.num_micro_batches; ++i, ++scalars.pass) {
    const HostBatch& batch = next_batch(step, i);
    const bool is_last = i + 1 == step.num_micro_batches;
    executor_.queue(static_cast<std::size_t>(i), is_last ? 2 : 1, scalars, &batch,
                    i == 0 ? Executor::Statistics::clear : Executor::Statistics::keep);
    stage_next_batch(number, step, i);
  }
  queued.slot = static_cast<std::size_t>(number % 2);
  executor_.queue_read(program_.loss_statistics, statistics_slot(queued.slot));
  queued.mark = device.set_mark();
  queued_.push_back(queued);
}

/// The batch of a micro-batch: the one that is on its way to the device, or the reader's next.
const HostBatch& TrainingLoop::next_batch(const RunSchedule::Step& step, std::int64_t micro_batch) {
  const HostBatch* batch = staged_batch_;
  if (batch == nullptr) {
    executor_.device().synchronize();  // the reader takes the batch before back
    batch = reader_->next();
    require_internal(batch != nullptr, "the reader of training data is endless");
    executor_.stage(*routines_[static_cast<std::size_t>(micro_batch)], *batch);
  }
  staged_batch_ = nullptr;
  require_internal(batch->num_samples == size_of_micro_batch(step, micro_batch),
                   "the reader delivers the batches of the schedule");
  return *batch;
}

/// Where the device copies beside its kernels: starts the copy of what follows a micro-batch that was just queued.
void TrainingLoop::stage_next_batch(std::int64_t number, const RunSchedule::Step& step, std::int64_t micro_batch) {
  if (program_.staged_batch < 0) return;
  const bool is_last = micro_batch + 1 == step.num_micro_batches;
  // An evaluation stages its own batches.
  if (is_last && (number >= schedule_.total_steps() || step.evaluates)) return;
  executor_.finish_staging();  // the reader takes the batch before back
  staged_batch_ = reader_->next();
  require_internal(staged_batch_ != nullptr, "the reader of training data is endless");
  const Program::MicroBatch& following = micro_batch_of(staged_batch_->num_samples);
  executor_.stage(following.first, *staged_batch_);
}

bool TrainingLoop::finish_step() {
  const QueuedStep queued = queued_.front();
  executor_.device().wait_for(queued.mark);
  Statistics statistics{};
  std::memcpy(statistics.data(), statistics_slot(queued.slot), sizeof(statistics));
  const LossSummary summary = summarize(statistics);
  if (!std::isfinite(summary.loss)) {
    executor_.device().synchronize();
    queued_.clear();
    staged_batch_ = nullptr;
    events_.on_diverged(locate_in_step(queued.step, queued.first_scalars, summary.loss));
    return false;
  }
  queued_.erase(queued_.begin());
  state_.step = queued.number;
  state_.pass += queued.step.num_micro_batches;
  state_.samples += queued.step.num_samples;
  trained_samples_ += queued.step.num_samples;
  last_loss_ = summary.loss;

  StepEvent event;
  event.step = queued.number;
  event.epoch = queued.step.epoch + 1;
  event.loss = summary.loss;
  event.learning_rate = queued.first_scalars.learning_rate;
  event.samples = queued.step.num_samples;
  event.memory = queued.memory;
  event.memory.device_used = measure_used();
  const Clock::time_point now = Clock::now();
  event.seconds = std::chrono::duration<double>(now - last_finish_).count();
  last_finish_ = now;
  training_seconds_ += event.seconds;
  if (!wrote_config_) {
    directory_.write_config(resolved_yaml(experiment_));
    wrote_config_ = true;
  }
  events_.on_step(event);
  return true;
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
  StepScalars scalars;
  scalars.seed = experiment_.seed;
  std::int64_t samples = 0;
  const HostBatch* batch = reader.next();
  if (batch != nullptr) executor_.stage(evaluation_of(batch->num_samples), *batch);
  while (batch != nullptr) {
    // An interrupted evaluation is made up for by the run that resumes.
    if (interruption_.requests.load() > 0) {
      executor_.finish_staging();
      return true;
    }
    const std::array<const Routine*, 1> routine = {&evaluation_of(batch->num_samples)};
    executor_.lay_out(routine);
    executor_.queue(0, 1, scalars, batch, samples == 0 ? Executor::Statistics::clear : Executor::Statistics::keep);
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

double TrainingLoop::loss_weight_of_step(const RunSchedule::Step& step) {
  const auto samples = static_cast<double>(step.num_samples);
  if (experiment_.loss.type != LossType::cross_entropy) {
    return samples * static_cast<double>(data_.description.num_outputs);
  }
  if (class_weights_.empty()) return samples;
  if (order_epoch_ != step.epoch) {
    sampler_.order_of_epoch(step.epoch, order_);
    order_epoch_ = step.epoch;
  }
  const std::int64_t begin = sampler_.begin_of_batch(step.first_batch);
  double sum = 0;
  for (std::int64_t i = begin; i < begin + step.num_samples; ++i) {
    const std::int32_t target = data_.train->class_of(order_[static_cast<std::size_t>(i)]);
    sum += static_cast<double>(class_weights_[static_cast<std::size_t>(target)]);
  }
  return sum;
}

std::int64_t TrainingLoop::size_of_micro_batch(const RunSchedule::Step& step, std::int64_t index) const {
  const bool is_odd = step.last_is_odd && index + 1 == step.num_micro_batches;
  return is_odd ? schedule_.odd_batch_size() : schedule_.batch_size();
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
  event.peak_used = peak_used_;
  event.last_checkpoint = last_checkpoint_;
}

}  // namespace trainer
