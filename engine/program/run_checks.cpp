#include "engine/program/run_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/config/diagnostic.h"
#include "engine/config/fields/enum_choices.h"
#include "engine/graph/metrics.h"

namespace trainer {

void check_run(const Experiment& experiment, const DataDescription& data) {
  const TrainConfig& train = experiment.train;
  if (train.early_stopping.patience > 0 && data.num_validation == 0) {
    throw located_error(train.early_stopping.location,
                        "early stopping judges by validation data, and there is none: the run would never stop early",
                        "data.split or other validation data, or train.early_stopping.patience: 0");
  }
  check_best_metric(experiment, data);
  const std::int64_t batch_size = train.batch_size.number().value_or(0), num_ranks = experiment.parallel.data;
  const std::int64_t shared = std::min(batch_size > 0 ? batch_size : data.num_train, data.num_train);
  const std::string samples = shared == 1 ? "1 sample" : fmt::format("{} samples", shared);
  if (shared < num_ranks)
    throw ConfigError(
        fmt::format("{} ranks share a batch, and it has {}: lower parallel.data (--ranks)", num_ranks, samples));
  if (experiment.parallel.deterministic && shared < experiment.parallel.parts)
    throw ConfigError(fmt::format("a batch is cut into {} parts, and it has {}: lower parallel.parts",
                                  experiment.parallel.parts, samples));
  if (const ParallelConfig& parallel = experiment.parallel;
      is_pipelined(parallel) && parallel.data > 1 && parallel.shard >= Shard::gradients) {
    const RunSchedule schedule(experiment, data);
    for (const std::int64_t samples_of_batch : {schedule.batch_size(), schedule.odd_batch_size()})
      if (samples_of_batch > 0 && samples_of_batch / parallel.data < schedule.parts().num_pieces)
        throw ConfigError(fmt::format(
            "with parallel.shard: {} each of {} ranks needs a sample in each of {} micro-batches, and a batch has {}: "
            "lower parallel.micro_batches, set data.drop_last: true, or parallel.shard: optimizer",
            shard_choices().name_of(parallel.shard), parallel.data, schedule.parts().num_pieces, samples_of_batch));
  }
  if (experiment.data.drop_last && batch_size > data.num_train) {
    throw located_error(experiment.data.drop_last_location,
                        fmt::format("'data.drop_last' leaves nothing to train on: {} training samples do not fill a "
                                    "batch of {}",
                                    data.num_train, batch_size),
                        fmt::format("train.batch_size of at most {}, or data.drop_last: false", data.num_train));
  }
}

std::optional<std::string> smaller_batch_text(std::optional<std::int64_t> asked, std::int64_t batch_size) {
  if (!asked || *asked <= batch_size) return std::nullopt;
  return fmt::format("train.batch_size is {}, and the data set has {} training sample{}: every batch has {}", *asked,
                     batch_size, batch_size == 1 ? "" : "s", batch_size);
}

std::vector<std::string> run_warnings(const Experiment& experiment, const RunSchedule& schedule) {
  std::vector<std::string> warnings;
  if (std::optional<std::string> text = smaller_batch_text(experiment.train.batch_size.number(), schedule.batch_size()))
    warnings.push_back(*std::move(text));
  const std::int64_t asked = experiment.train.eval_batch_size;
  if (schedule.eval_batch_size() > 0 && asked > schedule.eval_batch_size())
    warnings.push_back(fmt::format("train.eval_batch_size is {}, and there are {} validation samples: its batch has {}",
                                   asked, schedule.eval_batch_size(), schedule.eval_batch_size()));
  const ScheduleConfig& rates = experiment.schedule;
  const std::int64_t num_steps = schedule.total_steps();
  const bool warms_up = rates.type != ScheduleType::one_cycle && rates.warmup_steps > 0;
  if (warms_up && num_steps > 0 && rates.warmup_steps > num_steps) {
    const double highest =
        experiment.optimizer.lr.number * static_cast<double>(num_steps) / static_cast<double>(rates.warmup_steps);
    warnings.push_back(located_text(
        rates.warmup_location,
        fmt::format("the warm-up of {} steps is longer than the run of {}: the learning rate never gets above {:.3g} "
                    "of optimizer.lr {:.3g}",
                    rates.warmup_steps, num_steps, highest, experiment.optimizer.lr.number)));
  }
  const double first_share =
      std::pow(experiment.average.decay, static_cast<double>(std::max<std::int64_t>(schedule.num_averaged() - 1, 0)));
  if (experiment.average.type == AverageType::ema && schedule.num_averaged() >= 2 && first_share > 0.1)
    warnings.push_back(
        fmt::format("after {} steps the average of the weights is still {:.0f} % those of the first that counts: lower "
                    "average.decay, to {:.2g} say, raise average.after, or train longer",
                    num_steps, 100 * first_share, std::pow(0.01, 1 / static_cast<double>(schedule.num_averaged()))));
  if (experiment.average.type != AverageType::off && num_steps > 0 && schedule.num_averaged() < 2)
    warnings.push_back(fmt::format(
        "of {} step{} {} in the average of the weights, which is then no average: lower average.after or average.every",
        num_steps, num_steps == 1 ? "" : "s", schedule.num_averaged() == 0 ? "none counts" : "one alone counts"));
  return warnings;
}

}  // namespace trainer
