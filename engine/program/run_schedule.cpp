#include "engine/program/run_schedule.h"

#include <algorithm>
#include <functional>

#include "engine/errors.h"

namespace trainer {

BatchParts parts_of(const ParallelConfig& parallel) {
  const std::int64_t num_data = parallel.data, place = rank_layout(parallel).data_place();
  const std::int64_t num_pieces = num_micro_batches(parallel);
  if (!parallel.deterministic)
    return {.num_parts = num_data, .num_own = num_pieces, .first = place, .num_pieces = num_pieces};
  const std::int64_t num_own = parallel.parts / num_data;
  // See Note [Sums of parts].
  if (parallel.shard >= Shard::gradients)
    return {.num_parts = parallel.parts, .num_own = num_own, .first = place, .stride = num_data};
  return {.num_parts = parallel.parts, .num_own = num_own, .first = place * num_own};
}

RunSchedule::RunSchedule(const Experiment& experiment, const DataDescription& data) {
  const TrainConfig& train = experiment.train;
  require_internal(!train.batch_size.is_automatic(),
                   "settle_experiment puts a number in the place of train.batch_size: auto");
  if (data.num_train < 1) throw ConfigError("the training data holds no samples");
  batch_size_ = std::min(train.batch_size.number().value_or(data.num_train), data.num_train);
  const std::int64_t num_whole = data.num_train / batch_size_;
  odd_batch_size_ = experiment.data.drop_last ? 0 : data.num_train % batch_size_;
  require_internal(experiment.parallel.rank < total_ranks(experiment.parallel),
                   "a rank is one of those that there are");
  batches_per_epoch_ = num_whole + (odd_batch_size_ > 0 ? 1 : 0);
  accumulation_steps_ = std::min(train.accumulation_steps, batches_per_epoch_);
  accumulates_ = accumulation_steps_ > 1;
  steps_per_epoch_ = (batches_per_epoch_ + accumulation_steps_ - 1) / accumulation_steps_;
  total_steps_ = train.steps.value_or(train.epochs * steps_per_epoch_);

  if (data.num_validation > 0) {
    const std::int64_t wanted = train.eval_batch_size > 0 ? train.eval_batch_size : batch_size_;
    eval_batch_size_ = std::min(wanted, data.num_validation);
    num_whole_eval_batches_ = data.num_validation / eval_batch_size_;
    odd_eval_batch_size_ = data.num_validation % eval_batch_size_;
  }
  eval_every_ = train.eval_every;
  parts_ = parts_of(experiment.parallel);
  is_cut_ = experiment.parallel.deterministic;
  average_ = experiment.average;
  average_after_ = average_.after * (average_.after_in_epochs ? steps_per_epoch_ : 1);
  average_every_ = average_.every * (average_.every_in_epochs ? steps_per_epoch_ : 1);
}

std::vector<std::int64_t> RunSchedule::pass_sizes(std::span<const std::int64_t> batch_sizes) const {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t num_samples : batch_sizes) {
    if (num_samples == 0) continue;
    for (std::int64_t part = 0; part < parts_.num_own; ++part) sizes.push_back(parts_.own(num_samples, part).count);
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

double RunSchedule::average_share(std::int64_t step) const {
  if (average_.type == AverageType::off) return 0;
  const std::int64_t behind = step - average_after_;
  // Until the first one counts, the averages follow the weights.
  if (behind <= average_every_) return 1;
  if (behind % average_every_ != 0) return 0;
  const std::int64_t number = behind / average_every_;
  return average_.type == AverageType::ema ? 1 - average_.decay : 1 / static_cast<double>(number);
}

std::int64_t RunSchedule::num_averaged() const {
  if (average_.type == AverageType::off) return 0;
  return std::max<std::int64_t>(total_steps_ - average_after_, 0) / average_every_;
}

RunSchedule::Step RunSchedule::step(std::int64_t step) const {
  const std::int64_t in_epoch = (step - 1) % steps_per_epoch_;
  Step result;
  result.epoch = (step - 1) / steps_per_epoch_;
  result.first_batch = in_epoch * accumulation_steps_;
  result.num_micro_batches = std::min(accumulation_steps_, batches_per_epoch_ - result.first_batch);
  result.ends_epoch = in_epoch + 1 == steps_per_epoch_;
  result.last_is_odd = result.ends_epoch && odd_batch_size_ > 0;
  result.num_samples = result.num_micro_batches * batch_size_;
  if (result.last_is_odd) result.num_samples += odd_batch_size_ - batch_size_;
  const bool is_due = eval_every_ > 0 ? step % eval_every_ == 0 : result.ends_epoch;
  result.evaluates = evaluates() && (is_due || step == total_steps_);
  return result;
}

std::int64_t RunSchedule::num_steps_alike(std::int64_t step) const {
  const std::int64_t in_epoch = (step - 1) % steps_per_epoch_;
  if (in_epoch + 1 == steps_per_epoch_) return 0;
  // The last step of an epoch may be shorter, the last of the run is evaluated.
  std::int64_t num_alike = steps_per_epoch_ - 2 - in_epoch;
  num_alike = std::min(num_alike, total_steps_ - 1 - step);
  if (eval_every_ > 0) num_alike = std::min(num_alike, eval_every_ - 1 - step % eval_every_);
  return std::max<std::int64_t>(num_alike, 0);
}

}  // namespace trainer
