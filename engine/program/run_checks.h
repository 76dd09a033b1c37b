#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/program/run_schedule.h"

namespace trainer {

/// Refuses what this data leaves without a meaning: early stopping without validation data, data.drop_last where no
/// batch is full. Throws ConfigError with the key's place.
void check_run(const Experiment& experiment, const DataDescription& data);

/// That batches are smaller than train.batch_size, since the data set has no more samples to train on; nothing where
/// they are not. `asked` is the key's number: BatchSize::number().
std::optional<std::string> smaller_batch_text(std::optional<std::int64_t> asked, std::int64_t batch_size);

/// What a run over this data does, though it is hardly meant: batches smaller than train.batch_size or
/// train.eval_batch_size, and a warm-up
/// longer than the run, which begins with the key's place.
std::vector<std::string> run_warnings(const Experiment& experiment, const RunSchedule& schedule);

}  // namespace trainer
