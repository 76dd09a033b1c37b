#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "engine/plan/step_routines.h"
#include "engine/train/learning_rate.h"
#include "engine/train/training_loop.h"

// How steps of the training loop are queued and finished: Note [Running ahead] in training_loop.h.

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

/// Gradients that overflow below this loss scale do so at any.
constexpr double least_gradient_scale = 0x1p-16;

}  // namespace

bool TrainingLoop::train_next_step() {
  if (queued_.empty()) queue_step(state_.step + 1);
  while (may_queue_behind(queued_.back())) {
    try {
      queue_step(queued_.back().number + 1);
    } catch (const ProgramOutOfMemory&) {
      while (!queued_.empty())
        if (!finish_step()) return false;  // these count, before the failure of the next one is told
      throw;
    }
  }
  return finish_step();
}

void TrainingLoop::finish_queued_steps() {
  while (!queued_.empty() && finish_step()) continue;
}

/// See Note [Running ahead].
bool TrainingLoop::may_queue_behind(const QueuedStep& queued) const {
  return executor_.device().runs_ahead() && queued_.size() < most_queued() && !must_be_finished(queued) &&
         interruption_.requests.load() == 0;
}

bool TrainingLoop::must_be_finished(const QueuedStep& queued) const {
  return queued.number >= schedule_.total_steps() || queued.step.evaluates ||
         checkpoint_is_due(queued.number, queued.step);
}

std::size_t TrainingLoop::most_queued() const {
  return executor_.feeds() && are_steps_short() ? Executor::most_steps_queued : 2;
}

/// An interruption waits for all that are queued.
bool TrainingLoop::are_steps_short() const { return seconds_of_steps_ < options_.short_step_seconds; }

void TrainingLoop::queue_step(std::int64_t number) {
  const RunSchedule::Step step = schedule_.step(number);
  executor_.begin_step(number);
  routines_.clear();
  for_each_step_routine(program_, step, [&](const Routine& routine) { routines_.push_back(&routine); });
  executor_.lay_out(routines_);
  QueuedStep queued{.number = number, .step = step, .memory = measure()};
  look_for_leaks(number);

  StepScalars scalars;
  scalars.seed = experiment_.seed;
  std::int64_t pass = state_.pass;
  for (const QueuedStep& earlier : queued_) pass += earlier.step.num_micro_batches;
  scalars.pass = static_cast<std::uint32_t>(pass);
  // Where all samples are of classes of weight 0 there is nothing to learn from.
  const double loss_weight = loss_weight_of_step(step);
  if (loss_weight == 0) warn_of_weightless(number);
  scalars.gradient_scale = loss_weight > 0 ? static_cast<float>(1.0 / loss_weight) : 0.0F;
  scalars.learning_rate = learning_rate(experiment_.schedule, experiment_.optimizer.lr, number, schedule_.total_steps(),
                                        schedule_.steps_per_epoch());
  scalars.update = number;
  queued.first_scalars = scalars;
  queued_.reserve(queued_.size() + 1);
  is_within_step_ = true;
  if (step.num_micro_batches == 1) queued.fed_number = feed_step(step, scalars);
  if (queued.fed_number >= 0) {
    queued_.push_back(queued);
    is_within_step_ = false;
    if (must_be_finished(queued) || !are_steps_short()) executor_.start_fed();
    return mark_started_steps();
  }
  for (std::int64_t i = 0; i < step.num_micro_batches; ++i, ++scalars.pass) {
    const HostBatch& batch = next_batch(step, i);
    const bool is_last = i + 1 == step.num_micro_batches;
    executor_.queue(static_cast<std::size_t>(i), is_last ? 2 : 1, scalars, &batch, [&] { reader_->release(); });
    stage_next_batch(number, step, i);
  }
  executor_.queue_read(program_.loss_statistics, result_slot(number) + offsetof(StepResult, statistics));
  if (program_.loss_scale >= 0)
    executor_.queue_read(program_.loss_scale, result_slot(number) + offsetof(StepResult, loss_scale));
  queued_.push_back(queued);
  is_within_step_ = false;
  mark_started_steps();
}

void TrainingLoop::warn_of_weightless(std::int64_t step) {
  if (std::exchange(warned_of_weightless_, true)) return;
  events_.take(WarningEvent{
      .step = step,
      .message =
          fmt::format("all samples of step {} are of classes of weight 0 in loss.class_weights: "
                      "such steps have a loss and gradients of 0, and only momentum and weight decay move weights",
                      step)});
  ++progress_.num_warnings;
}

/// Sets one mark for the newest steps that have none, once they are started.
void TrainingLoop::mark_started_steps() {
  if (executor_.has_waiting_steps() || queued_.empty() || queued_.back().mark >= 0) return;
  const std::int64_t mark = executor_.device().set_mark();
  for (QueuedStep& queued : queued_)
    if (queued.mark < 0) queued.mark = mark;
}

std::int64_t TrainingLoop::feed_step(const RunSchedule::Step& step, const StepScalars& scalars) {
  if (!executor_.feeds()) return -1;
  const HostBatch* batch = staged_batch_;
  if (batch == nullptr) {
    executor_.finish_staging();  // the reader takes the batch before back
    batch = reader_->next();
    require_internal(batch != nullptr, "the reader of training data is endless");
  }
  require_internal(batch->num_samples == size_of_micro_batch(step, 0),
                   "the reader delivers the batches of the schedule");
  const std::int64_t number = executor_.feed(scalars, *batch);
  if (number < 0) {
    if (staged_batch_ == nullptr) executor_.stage(*routines_.front(), *batch);
    staged_batch_ = batch;
    return number;
  }
  if (staged_batch_ != nullptr) executor_.take_back_staged();
  staged_batch_ = nullptr;
  return number;
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
  if (queued_.front().mark < 0) {
    executor_.start_fed();
    mark_started_steps();
  }
  const QueuedStep queued = queued_.front();
  executor_.device().wait_for(queued.mark);
  StepResult result;
  static_assert(sizeof(StepResult) == sizeof(Statistics) + sizeof(LossScaleState));
  const std::size_t result_bytes = program_.loss_scale >= 0 ? sizeof(result) : sizeof(Statistics);
  if (queued.fed_number < 0)
    std::memcpy(&result, result_slot(queued.number), result_bytes);
  else
    std::memcpy(&result, executor_.fed_results(queued.fed_number), result_bytes);
  const LossSummary summary = summarize(result.statistics);
  StepEvent event;
  const bool was_skipped = note_loss_scale(result, event);
  const bool is_finite = std::isfinite(summary.loss);
  const double least_scale = is_finite ? least_gradient_scale : 1;
  const bool has_lost_weights = std::isnan(result.statistics[num_counted]);
  if (has_lost_weights || (was_skipped ? *event.loss_scale < least_scale : !is_finite)) {
    executor_.drop_fed();
    executor_.device().synchronize();
    queued_.clear();
    staged_batch_ = nullptr;
    events_.take(locate_in_step(queued.step, queued.first_scalars, summary.loss));
    return false;
  }
  queued_.erase(queued_.begin());
  state_.step = queued.number;
  state_.pass += queued.step.num_micro_batches;
  state_.samples += queued.step.num_samples;
  progress_.trained_samples += queued.step.num_samples;
  progress_.last_loss = summary.loss;

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
  seconds_of_steps_ += (event.seconds - seconds_of_steps_) / Executor::steps_at_once;
  progress_.training_seconds += event.seconds;
  events_.take(event);
  if (saver_ != nullptr) saver_->save_config(progress_);
  return true;
}

bool TrainingLoop::note_loss_scale(const StepResult& result, StepEvent& event) {
  if (program_.loss_scale < 0) return false;
  event.loss_scale = result.loss_scale[loss_scale_factor];
  event.skipped = result.loss_scale[loss_scale_skipped] > skipped_before_;
  skipped_before_ = result.loss_scale[loss_scale_skipped];
  if (event.skipped) ++progress_.num_skipped;
  return event.skipped;
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

}  // namespace trainer
