#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/report/sweep/sweep_row.h"

namespace trainer {

inline SweepRow measured(const std::vector<std::string>& values, std::int64_t allocated, double speed) {
  SweepRow row;
  row.point = values.front() + (values.size() > 1 ? "," + values[1] : "");
  row.values = values;
  row.capacity = 64 << 20;
  row.peak_requested = allocated - 100;
  row.peak_allocated = allocated;
  row.peak_reserved = allocated + (2 << 20);
  row.peak_used = 2 * allocated;
  row.by_category = {1, 2, 3, 4, 5, 6, 7, 8};
  row.samples_per_second = speed;
  row.step_seconds = 1 / speed;
  row.loss = 0.25;
  row.train_loss = 0.5;
  row.steps = 7;
  row.seconds = 1.5;
  return row;
}

inline SweepRow without_memory(const std::vector<std::string>& values) {
  SweepRow row;
  row.point = values.front() + (values.size() > 1 ? "," + values[1] : "");
  row.values = values;
  row.status = PointStatus::out_of_memory;
  row.exit_code = 3;
  row.capacity = 64 << 20;
  return row;
}

}  // namespace trainer
