#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/search/change.h"
#include "engine/plan/search/planner.h"

namespace trainer {

struct ChoiceOptions {
  enum class Keep : std::uint8_t {
    effective_batch,  ///< the samples of an update; precision, moments and order of sums may change
    same_result,      ///< the result too, but for rounding
  } keep = Keep::effective_batch;
  /// Only what a run between two steps can take up: its precision, parameters and optimizer state stay as they are.
  bool while_running = false;
};

/// Combinations of batch size, accumulation, precision, checkpointing, allocator, optimizer memory and, of ranks, what
/// they hold of the model and how they exchange it, that fit `capacity` with the samples of an update that `experiment`
/// has; the fastest first, by predicted time. What another equals in speed (same_speed), in keeping the numbers and in
/// how little it changes is left out. The experiment as it is is among them where it fits. Without any one setting of a
/// choice it does not fit or is slower.
std::vector<Change> find_choices(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                 std::int64_t capacity, const ChoiceOptions& options);

}  // namespace trainer
