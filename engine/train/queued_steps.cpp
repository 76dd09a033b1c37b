#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "engine/plan/target_reading.h"
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
  if (driver_.queued().empty()) queue_step(state_.step + 1);
  while (may_queue_behind(driver_.queued().back())) {
    try {
      queue_step(driver_.queued().back().number + 1);
    } catch (const ProgramOutOfMemory&) {
      while (!driver_.queued().empty())
        if (!finish_step()) return false;  // these count, before the failure of the next one is told
      throw;
    }
  }
  return finish_step();
}

void TrainingLoop::finish_queued_steps() {
  while (!driver_.queued().empty() && finish_step()) continue;
}

/// See Note [Running ahead]. Stages of a pipeline wait for each other within a step: what one has queued may be put off
/// while its host waits for the word of another, which would wait for it in a later step.
bool TrainingLoop::may_queue_behind(const QueuedStep& queued) const {
  if (program_.ranks.num_stages > 1) return false;
  return executor_.device().runs_ahead() && driver_.queued().size() < most_queued() &&
         !must_be_finished(queued.number, queued.step) && !is_interrupted();
}

bool TrainingLoop::must_be_finished(std::int64_t number, const RunSchedule::Step& step) const {
  return number >= last_step() || step.evaluates || checkpoint_is_due(number) || histograms_are_due(number);
}

std::size_t TrainingLoop::most_queued() const {
  return executor_.feeds() && are_steps_short() ? Executor::most_steps_queued : 2;
}

/// An interruption waits for all that are queued.
bool TrainingLoop::are_steps_short() const { return seconds_of_steps_ < options_.short_step_seconds; }

void TrainingLoop::queue_step(std::int64_t number) {
  const RunSchedule::Step step = step_of(number);
  driver_.lay_out(number, step);
  measure_used();
  look_for_leaks(number);
  driver_.queue(scalars_of(number, step), {.may_wait = !must_be_finished(number, step) && are_steps_short(),
                                           .batch_follows = number < last_step() && !step.evaluates});
}

StepScalars TrainingLoop::scalars_of(std::int64_t number, const RunSchedule::Step& step) {
  StepScalars scalars;
  scalars.seed = experiment_.seed;
  std::int64_t pass = state_.pass;
  for (const QueuedStep& earlier : driver_.queued()) pass += earlier.step.num_micro_batches;
  scalars.pass = static_cast<std::uint32_t>(pass);
  scalars.first_sample = schedule_.own_of_pass(step, 0).begin;
  // Where all targets are ignored, or of classes of weight 0, there is nothing to learn from.
  for (std::size_t i = 0; i < program_.loss_parts.size(); ++i) {
    const LossPart& part = program_.loss_parts[i];
    const double loss_weight = loss_weight_of_step(step, part);
    if (loss_weight == 0) warn_of_weightless(number);
    const float scale = loss_weight > 0 ? static_cast<float>(part.weight / loss_weight) : 0.0F;
    (i == 0 ? scalars.gradient_scale : scalars.further_gradient_scales[i - 1]) = scale;
  }
  const std::int64_t of_stage = number - state_.stage.step;
  scalars.learning_rate = learning_rate(experiment_.schedule, experiment_.optimizer.lr.number, of_stage,
                                        schedule_.total_steps(), schedule_.steps_per_epoch());
  scalars.momentum = cycled_momentum(experiment_.schedule, of_stage, schedule_.total_steps()).value_or(0);
  if (options_.learning_rate) scalars.learning_rate = options_.learning_rate(number);
  scalars.update = number;
  scalars.average_share = schedule_.average_share(of_stage);
  return scalars;
}

void TrainingLoop::warn_of_weightless(std::int64_t step) {
  if (std::exchange(warned_of_weightless_, true)) return;
  events_.take(WarningEvent{
      .step = step,
      .message =
          fmt::format("all targets of step {} are ignored, or of classes of weight 0 in loss.class_weights: "
                      "such steps have a loss and gradients of 0, and only momentum and weight decay move weights",
                      step)});
  ++progress_.num_warnings;
}

bool TrainingLoop::finish_step() {
  const StepResult result = driver_.wait_for_oldest();
  const QueuedStep queued = driver_.queued().front();
  const LossSummary summary = summarize(result.statistics);
  StepEvent event;
  const bool was_skipped = note_loss_scale(result, event);
  const bool is_finite = std::isfinite(summary.loss);
  const double least_scale = is_finite ? least_gradient_scale : 1;
  const bool has_lost_weights = std::isnan(result.statistics[num_counted]);
  if (has_lost_weights || (was_skipped ? *event.loss_scale < least_scale : !is_finite)) {
    driver_.drop_all();
    events_.take(locate_in_step(queued.step, queued.first_scalars, summary.loss));
    return false;
  }
  driver_.remove_oldest();
  state_.step = queued.number;
  state_.pass += queued.step.num_micro_batches;
  state_.samples += queued.step.num_samples;
  progress_.trained_samples += queued.step.num_samples;
  progress_.last_loss = summary.loss;

  event.step = queued.number;
  event.stage = stage_name();
  event.epoch = queued.step.epoch + 1;
  event.loss = summary.loss;
  event.terms = summary.terms;
  event.learning_rate = queued.first_scalars.learning_rate;
  event.samples = queued.step.num_samples;
  event.memory = describe(queued.memory, queued.num_alloc_retries);
  const Clock::time_point now = Clock::now();
  event.seconds = std::chrono::duration<double>(now - last_finish_).count();
  last_finish_ = now;
  seconds_of_steps_ += (event.seconds - seconds_of_steps_) / Executor::steps_at_once;
  progress_.training_seconds += event.seconds;
  event.tokens = progress_.token_rates.count(event.samples, state_.samples, event.seconds);
  event.data_seconds = queued.data_seconds;
  progress_.data_seconds += event.data_seconds;
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

double TrainingLoop::loss_weight_of_step(const RunSchedule::Step& step, const LossPart& part) {
  const LossConfig& loss = experiment_.losses[static_cast<std::size_t>(part.loss)];
  if (loss.type == LossType::dice) return static_cast<double>(step.num_samples);
  if (!depends_on_targets(loss, data_.description))
    return static_cast<double>(step.num_samples * part.numbers_of_sample);
  if (order_epoch_ != step.epoch) {
    sampler_.order_of_epoch(step.epoch, order_);
    order_epoch_ = step.epoch;
  }
  const bool needs_reader = num_target_readers(experiment_, data_.description) > 0;
  if (needs_reader && !target_reader_) target_reader_ = data_.train->make_reader();
  const std::int64_t begin = sampler_.begin_of_whole_batch(step.first_batch);
  double sum = 0;
  for (std::int64_t i = begin; i < begin + step.num_samples; ++i) {
    const std::int64_t sample = order_[static_cast<std::size_t>(i)];
    if (needs_reader)
      target_reader_->read_classes(step.epoch, sample, classes_.data());
    else
      data_.train->read_classes(sample, classes_.data());
    for (const std::int32_t target : classes_) {
      if (target == loss.ignore_index) continue;
      sum += loss.class_weights.empty()
                 ? 1.0
                 : static_cast<double>(static_cast<float>(loss.class_weights[static_cast<std::size_t>(target)]));
    }
  }
  return sum;
}

}  // namespace trainer
