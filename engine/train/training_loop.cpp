#include "engine/train/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/plan/communication_order.h"
#include "engine/plan/step_routines.h"
#include "engine/train/agreement.h"
#include "engine/train/non_finite_search.h"
#include "engine/train/weights_watch.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

TrainingLoop::TrainingLoop(Session& session, const TrainingOptions& options, const Interruption& interruption,
                           EventSink& events, RunProgress& progress, ProgressSaver* saver)
    : session_(session),
      experiment_(session.experiment()),
      data_(session.data()),
      schedule_(session.schedule()),
      executor_(session.executor()),
      program_(session.program()),
      options_(options),
      interruption_(interruption),
      events_(events),
      sampler_(session.training_sampler()),
      progress_(progress),
      state_(progress.state),
      saver_(saver),
      driver_(session, sampler_),
      device_total_(session.device().total_bytes()) {
  if (data_.description.categorical())
    classes_.resize(static_cast<std::size_t>(data_.description.target.num_elements()));
}

RunStatus TrainingLoop::run() {
  leak_watch_.emplace(executor_, events_);
  prepare_kernels();
  if (options_.ranks != nullptr && !all_have(options_.ranks, communication_order(program_, schedule_)))
    throw ConfigError(
        "the parts of a batch have sizes for which ranks would share this model in different orders: set "
        "memory.recompute_cheap: "
        "false, train.checkpointing: off, or a train.batch_size that parallel.data divides");
  if (state_.step < last_step()) {
    const RunSchedule::Step next = step_of(state_.step + 1);
    driver_.start_reading({.epoch = next.epoch, .batch = schedule_.first_pass(next.first_batch)});
  }
  if (program_.loss_scale >= 0) {
    LossScaleState scale{};
    executor_.read(program_.loss_scale, scale.data());
    skipped_before_ = scale[loss_scale_skipped];
  }
  last_finish_ = Clock::now();
  const RunStatus status = run_steps();
  driver_.stop_reading();
  return status;
}

RunSchedule::Step TrainingLoop::step_of(std::int64_t number) const {
  RunSchedule::Step step = schedule_.step(number - state_.stage.step);
  step.epoch += state_.stage.epoch;
  return step;
}

void TrainingLoop::prepare_kernels() {
  const std::int64_t next = state_.step - state_.stage.step + 1, total = schedule_.total_steps();
  const auto prepare_step = [&](std::int64_t number) {
    if (number > total) return;
    for_each_step_routine(program_, schedule_, schedule_.step(number),
                          [&](const Routine& routine, std::int64_t) { executor_.prepare(routine); });
  };
  // Every step of an epoch but its last one is like the others.
  prepare_step(next);
  prepare_step(next + 1);
  const std::int64_t steps_per_epoch = std::max<std::int64_t>(schedule_.steps_per_epoch(), 1);
  prepare_step((next + steps_per_epoch - 1) / steps_per_epoch * steps_per_epoch);
  for (const Routine& routine : program_.evaluations) executor_.prepare(routine);
}

RunStatus TrainingLoop::run_steps() {
  look_for_interruption();
  if (!state_.evaluated && !settle_step()) return RunStatus::diverged;
  while (state_.step < last_step() && !stops_early()) {
    if (is_interrupted() && driver_.queued().empty()) break;
    if (!train_next_step()) return RunStatus::diverged;
    look_for_interruption();
    state_.evaluated = !step_of(state_.step).evaluates;
    show_due_weights();
    if (!settle_step()) return RunStatus::diverged;
  }
  progress_.stopped_early = stops_early() && state_.step < last_step();
  if (!progress_.is_saved() && !save()) return RunStatus::diverged;
  const bool is_done = progress_.stopped_early || (state_.step >= last_step() && state_.evaluated);
  return is_done ? RunStatus::done : RunStatus::interrupted;
}

bool TrainingLoop::settle_step() {
  const std::int64_t best_before = state_.best_step;
  if (!state_.evaluated && !is_interrupted() && !evaluate()) return false;
  const bool is_new_best = state_.best_step != best_before;
  const bool is_due = is_new_best || checkpoint_is_due(state_.step);
  return !is_due || progress_.is_saved() || save();
}

void TrainingLoop::look_for_interruption() {
  if (options_.ranks != nullptr) was_interrupted_ = any_rank(options_.ranks, interruption_.requests.load() > 0);
}

void TrainingLoop::share_statistics() {
  if (!program_.share_statistics.instructions.empty()) executor_.run(program_.share_statistics, {});
}

bool TrainingLoop::stops_early() const {
  const std::int64_t patience = experiment_.train.early_stopping.patience;
  return patience > 0 && state_.evaluations_without_improvement >= patience;
}

bool TrainingLoop::is_due(std::int64_t number, std::int64_t every, bool in_epochs) const {
  if (every <= 0 || number <= state_.stage.step) return false;
  const RunSchedule::Step step = step_of(number);
  if (in_epochs) return step.ends_epoch && (step.epoch + 1) % every == 0;
  return number % every == 0;
}

bool TrainingLoop::checkpoint_is_due(std::int64_t number) const {
  return is_due(number, experiment_.checkpoint.every, experiment_.checkpoint.every_in_epochs);
}

bool TrainingLoop::histograms_are_due(std::int64_t number) const {
  return is_due(number, experiment_.logging.histograms_every, experiment_.logging.histograms_in_epochs);
}

void TrainingLoop::show_due_weights() {
  if (saver_ == nullptr || !histograms_are_due(state_.step)) return;
  show_weights(executor_, options_.ranks, saver_->memory(), state_.step, options_.weights_watch);
  last_finish_ = Clock::now();
}

bool TrainingLoop::save() {
  share_statistics();
  if (saver_ == nullptr) {
    progress_.note_saved();
    return true;
  }
  const std::int32_t non_finite = saver_->save(progress_, experiment_, executor_, events_);
  last_finish_ = Clock::now();
  if (non_finite < 0) return true;
  const Parameter& parameter = program_.parameters[static_cast<std::size_t>(non_finite)];
  events_.take(DivergedEvent{state_.step, progress_.last_loss, program_.layer_label(parameter.layer), parameter.name});
  return false;
}

void TrainingLoop::save_after_failure() {
  executor_.device().synchronize();
  driver_.stop_reading();
  if (has_parts(program_)) return;  // the others do not give what they have
  if (saver_ != nullptr && state_.step > 0 && !progress_.is_saved())
    saver_->save_alone(progress_, experiment_, saved_tensors_of(executor_), events_);
}

LossStatistics TrainingLoop::read_statistics() {
  LossStatistics statistics{};
  executor_.read(program_.loss_statistics, statistics.data());
  return statistics;
}

LossSummary TrainingLoop::summarize(const LossStatistics& statistics) const {
  LossSummary summary;
  double counted = 0, correct = 0, correct_top5 = 0;
  for (std::size_t i = 0; i < program_.loss_parts.size(); ++i) {
    const LossPart& part = program_.loss_parts[i];
    const double* const of_part = statistics.data() + i * num_loss_statistics;
    const double weight = of_part[loss_weight];
    // What is not finite stays so.
    const double mean = weight == 0 ? 0 * of_part[loss_sum] : of_part[loss_sum] / weight;
    summary.loss += part.weight * mean;
    summary.terms.values[static_cast<std::size_t>(part.loss)] += part.weight_in_term * mean;
    if (counted > 0) continue;  // of the first part that counts
    counted = of_part[num_counted];
    correct = of_part[num_correct];
    correct_top5 = of_part[num_correct_top5];
  }
  if (experiment_.losses.size() > 1) summary.terms.count = static_cast<int>(experiment_.losses.size());
  if (counted <= 0) return summary;
  summary.accuracy = correct / counted;
  if (data_.description.categorical() && data_.description.num_outputs > 5) summary.top5 = correct_top5 / counted;
  return summary;
}

CountedMetrics TrainingLoop::read_counts() {
  if (program_.metric_counts < 0) return {};
  const TensorType& type = program_.buffers[program_.metric_counts].type;
  const auto num_counts = static_cast<std::size_t>(type.num_elements());
  if (type.dtype == DType::f64) {
    std::vector<double> sums(num_counts);
    executor_.read(program_.metric_counts, sums.data());
    return metrics_of_errors(sums);
  }
  std::vector<std::int64_t> counts(num_counts);
  executor_.read(program_.metric_counts, counts.data());
  return metrics_of_confusion(std::move(counts), type.shape[0], experiment_.data.ignored_target);
}

void TrainingLoop::look_for_leaks(std::int64_t step) {
  const std::int64_t before = leak_watch_->num_warnings();
  leak_watch_->look(step);
  progress_.num_warnings += leak_watch_->num_warnings() - before;
}

DeviceMemory TrainingLoop::describe(const StepMemory& memory, std::int64_t num_alloc_retries) {
  return {.step = memory,
          .device_used = measure_used(),
          .device_total = device_total_,
          .num_alloc_retries = num_alloc_retries};
}

DeviceMemory TrainingLoop::measure() {
  return describe(executor_.memory(), executor_.allocator().statistics().num_alloc_retries);
}

std::int64_t TrainingLoop::measure_used() {
  const std::int64_t used = executor_.device().used_bytes();
  progress_.peak_used = std::max(progress_.peak_used, used);
  return used;
}

DivergedEvent TrainingLoop::locate_in_step(const RunSchedule::Step& step, const StepScalars& first_scalars,
                                           double loss) {
  DivergedEvent event{.step = state_.step + 1, .loss = loss, .layer = "loss", .tensor = "loss"};
  executor_.release_transient();  // the gradients
  const std::unique_ptr<BatchReader> reader =
      session_.read_training(sampler_, {.epoch = step.epoch, .batch = schedule_.first_pass(step.first_batch)});
  StepScalars scalars = first_scalars;
  if (program_.pipeline) {
    locate_in_pipeline(step, *reader, scalars, event);
    agree_on_origin(event);
    return event;
  }
  for (std::int64_t i = 0; i < schedule_.num_passes(step); ++i) {
    const HostBatch* batch = reader->next();
    scalars.pass = first_scalars.pass + static_cast<std::uint32_t>(schedule_.micro_batch_of(i));
    scalars.first_sample = schedule_.own_of_pass(step, i).begin;
    const Routine& routine = micro_batch_of(program_, batch->num_samples).first;
    NonFiniteSearch search(executor_, routine);
    if (i > 0 || !search.search_parameters() || search.runs_on()) executor_.run(routine, scalars, batch, &search);
    executor_.release_transient();
    if (!search.found() || event.layer != "loss") continue;
    event.layer = search.result().layer;
    event.tensor = search.result().tensor;
    if (!search.runs_on()) break;
  }
  agree_on_origin(event);
  return event;
}

void TrainingLoop::locate_in_pipeline(const RunSchedule::Step& step, BatchReader& reader, StepScalars scalars,
                                      DivergedEvent& event) {
  const std::uint32_t first_pass = scalars.pass;
  std::int64_t num_read = 0;
  bool is_first = true;
  for (const PipelineSteps::Entry& entry : pipeline_step(program_, step).entries) {
    const Routine& routine = program_.pipeline->routines[static_cast<std::size_t>(entry.routine)];
    const HostBatch* batch = nullptr;
    for (; !routine.fields.empty() && num_read <= entry.pass; ++num_read) batch = reader.next();
    scalars.pass = first_pass + static_cast<std::uint32_t>(schedule_.micro_batch_of(entry.pass));
    scalars.first_sample = schedule_.own_of_pass(step, entry.pass).begin;
    NonFiniteSearch search(executor_, routine);
    if (!std::exchange(is_first, false) || !search.search_parameters() || search.runs_on())
      executor_.run(routine, scalars, batch, &search);
    if (!search.found() || event.layer != "loss") continue;
    event.layer = search.result().layer;
    event.tensor = search.result().tensor;
    if (!search.runs_on()) break;
  }
  executor_.release_transient();
}

void TrainingLoop::agree_on_origin(DivergedEvent& event) {
  const std::optional<int> rank = first_rank(options_.ranks, event.layer != "loss");
  if (!rank || options_.ranks == nullptr) return;
  event.layer = text_of_rank(*options_.ranks, *rank, event.layer);
  event.tensor = text_of_rank(*options_.ranks, *rank, event.tensor);
}

}  // namespace trainer
