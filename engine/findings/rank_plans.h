#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/program/program.h"

namespace trainer {

/// What some ranks, which follow each other and have parts of the same sizes, hold each.
struct RankPlan {
  std::int64_t first_rank = 0, num_ranks = 1;
  std::int64_t batch_size = 0;  ///< of its part of a whole micro-batch
  bool fits = true;
  std::int64_t peak_allocated = 0, peak_reserved = 0;  ///< without a bound where it does not fit
};

/// Plans every rank, as many as there are kinds of them; nothing where there is one. `settled`: of rank 0, as it is
/// compiled to run.
std::vector<RankPlan> find_rank_plans(const Experiment& settled, const DataDescription& data, const DeviceModel& device,
                                      std::int64_t capacity);

/// Bytes that a rank sends in an update, and as many that it receives; 0 where there is one rank.
std::int64_t communicated_bytes(const Program& program);

}  // namespace trainer
