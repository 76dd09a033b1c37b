#include <chrono>
#include <cmath>
#include <memory>
#include <numbers>
#include <utility>

#include "engine/graph/metrics.h"
#include "engine/plan/step_routines.h"
#include "engine/train/fresh_state.h"
#include "engine/train/non_finite_search.h"
#include "engine/train/training_loop.h"

// How the training loop evaluates.

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

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

/// While it lives, the 16-bit copies of weights are those of the averages.
class LentCopies {
 public:
  explicit LentCopies(Executor& executor) : executor_(executor) {
    if (lends()) executor_.run(executor_.program().lend_averages, {});
  }
  ~LentCopies() {
    try {
      if (lends()) executor_.run(executor_.program().refresh, {});
    } catch (const Error&) {  // the device is lost
    }
  }
  LentCopies(const LentCopies&) = delete;
  LentCopies& operator=(const LentCopies&) = delete;

 private:
  bool lends() const { return !executor_.program().lend_averages.instructions.empty(); }

  Executor& executor_;
};

/// The parts of evaluated batches for which this rank has something to do. Of an inner stage of a pipeline, which takes
/// no data, they are so many samples alone.
class EvaluatedParts {
 public:
  explicit EvaluatedParts(const Session& session)
      : program_(session.program()),
        num_own_(session.schedule().parts().num_own),
        sampler_(session.validation_sampler()),
        reader_(takes_evaluated_batches(program_) ? new BatchReader(session.read_validation()) : nullptr) {
    advance();
  }

  /// Null behind the last; valid until advance().
  const HostBatch* batch() const { return batch_; }
  /// Its memory may be filled anew.
  void release() {
    if (reader_) reader_->release();
  }
  std::span<const Routine* const> routines() const { return pass_.routines(); }

  void advance() {
    do {
      batch_ = next();
      if (batch_ == nullptr) return;
      pass_ = evaluation_pass(program_, batch_->num_samples, num_read_++ % num_own_);
    } while (pass_.count == 0);
  }

 private:
  const HostBatch* next() {
    if (reader_) return reader_->next();
    if (num_read_ == sampler_.num_batches()) return nullptr;
    unread_.num_samples = sampler_.size_of_batch(num_read_);
    return &unread_;
  }

  const Program& program_;
  const std::int64_t num_own_;
  const Sampler sampler_;
  const std::unique_ptr<BatchReader> reader_;  ///< null: nothing is read
  HostBatch unread_;
  std::int64_t num_read_ = 0;
  const HostBatch* batch_ = nullptr;
  EvaluationPass pass_;
};

}  // namespace

bool TrainingLoop::evaluate() {
  const Clock::time_point begin = Clock::now();
  executor_.begin_step(state_.step);
  share_statistics();
  const LentCopies lent(executor_);
  StepScalars scalars;
  scalars.seed = experiment_.seed;
  bool is_begun = false;
  const auto begin_statistics = [&] {
    if (std::exchange(is_begun, true)) return;
    clear_statistics(executor_);
    if (program_.metric_counts >= 0) executor_.clear(program_.metric_counts);
    if (program_.part_sums.counts >= 0) executor_.clear(program_.part_sums.counts);
  };
  EvaluatedParts parts(session_);
  const StagingEnd staging_end(executor_);
  const auto stage = [&] {
    if (parts.batch() != nullptr) executor_.stage(*parts.routines().front(), *parts.batch());
  };
  stage();
  while (parts.batch() != nullptr) {
    // An interrupted evaluation is made up for by the run that resumes. Ranks look behind it alone.
    if (options_.ranks == nullptr && is_interrupted()) return true;
    executor_.lay_out(parts.routines());
    look_for_leaks(state_.step);
    begin_statistics();
    if (options_.evaluation_watch != nullptr) options_.evaluation_watch->begin(*parts.batch());
    executor_.queue(0, parts.routines().size(), scalars, parts.batch(), [&] { parts.release(); });
    if (options_.evaluation_watch != nullptr) options_.evaluation_watch->end();
    if (!program_.staged_fields.empty())
      executor_.finish_staging();
    else
      executor_.device().synchronize();
    parts.advance();
    stage();
  }
  begin_statistics();  // of a rank without samples
  if (!program_.agree_evaluation.instructions.empty()) executor_.run(program_.agree_evaluation, {});
  LossSummary summary = summarize(read_statistics());
  if (!std::isfinite(summary.loss)) {
    events_.take(locate_in_evaluation(summary.loss));
    return false;
  }
  summary.counted = read_counts();
  if (tells_perplexity(experiment_, data_.description)) {
    summary.counted.perplexity = std::exp(summary.loss);
    if (data_.bytes_of_target > 0)
      summary.counted.bits_per_byte = summary.loss / std::numbers::ln2 / data_.bytes_of_target;
  }
  if (!summary.accuracy) summary.accuracy = summary.counted.accuracy;
  summary.averaged = experiment_.average.type != AverageType::off;
  state_.evaluated = true;
  progress_.last_evaluation = summary;

  EvalEvent event;
  event.step = state_.step;
  event.stage = stage_name();
  event.epoch = state_.step > state_.stage.step ? step_of(state_.step).epoch + 1 : state_.stage.epoch + 1;
  event.loss = summary.loss;
  event.accuracy = summary.accuracy;
  event.top5 = summary.top5;
  event.terms = summary.terms;
  event.counted = summary.counted;
  event.target_unit = target_unit(data_.preprocessing);
  event.samples = data_.validation->size();
  event.best = note_evaluation(summary);
  event.averaged = summary.averaged;
  event.memory = measure();
  event.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  events_.take(event);
  last_finish_ = Clock::now();
  return true;
}

/// Whether it is the best so far. Where the metric has no value, nothing got better.
bool TrainingLoop::note_evaluation(const LossSummary& summary) {
  const Metric metric = experiment_.checkpoint.best;
  const std::optional<double> value = summary.value_of(metric);
  const auto improves = [&](const std::optional<double>& on, double min_delta) {
    if (!value) return false;
    return !on || (is_better_higher(metric) ? *value > *on + min_delta : *value < *on - min_delta);
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

DivergedEvent TrainingLoop::locate_in_evaluation(double loss) {
  DivergedEvent event{.step = state_.step, .loss = loss, .layer = "loss", .tensor = "loss"};
  StepScalars scalars;
  scalars.seed = experiment_.seed;
  bool is_first = true;
  for (EvaluatedParts parts(session_); parts.batch() != nullptr; parts.advance()) {
    const Routine& routine = *parts.routines().front();
    NonFiniteSearch search(executor_, routine);
    if (!is_first || !search.search_parameters() || search.runs_on())
      executor_.run(routine, scalars, parts.batch(), &search);
    executor_.release_transient();
    is_first = false;
    if (!search.found() || event.layer != "loss") continue;
    event.layer = search.result().layer;
    event.tensor = search.result().tensor;
    if (!search.runs_on()) break;
  }
  agree_on_origin(event);
  return event;
}

}  // namespace trainer
