#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/search/change.h"
#include "engine/plan/search/planner.h"

namespace trainer {

/// Why an experiment does not fit, and what would therefore not help. All bytes are of its plan without a bound.
struct Diagnosis {
  bool is_known = false;  ///< false: it could not be planned, and nothing below says anything
  std::int64_t capacity = 0;
  std::int64_t peak_requested = 0;        ///< the least that any allocator would have to reserve
  std::int64_t peak_reserved = 0;         ///< what its own does
  std::int64_t persistent = 0;            ///< what is held throughout: parameters, optimizer state, staging
  std::int64_t persistent_requested = 0;  ///< the same as asked for, without staged batches: no batch size lessens it
  std::int64_t training_peak = 0;         ///< reserved by the training steps
  std::int64_t evaluation_peak = 0;       ///< and by the evaluations; 0: there is none
  std::int64_t evaluation_requested = 0;  ///< the most that is in use in one
  std::string largest_buffer, largest_layer;
  std::int64_t largest_bytes = 0;    ///< of the largest buffer, which must be in one piece
  std::int64_t held_by_others = 0;   ///< by other processes on the device
  bool fits_without_others = false;  ///< it was planned with what they hold, as far as memory.limit lets it
  /// Where it is fragmentation: the peak reserved with memory.allocator=planned; 0: it cannot be planned.
  std::int64_t placed_peak = 0;
  std::vector<Change> not_enough;  ///< Advice::not_enough

  bool is_fragmentation() const { return peak_requested <= capacity && peak_reserved > capacity; }
  bool is_model_too_large() const { return persistent_requested > capacity; }
  bool is_buffer_too_large() const { return largest_bytes > capacity; }
  bool is_only_evaluation() const { return training_peak <= capacity && evaluation_peak > capacity; }
  /// What only training holds does not matter then.
  bool evaluation_needs_more() const { return is_only_evaluation() && evaluation_requested > capacity; }
  bool places_are_enough() const { return is_fragmentation() && placed_peak > 0 && placed_peak <= capacity; }
};

/// Never throws for an experiment that cannot be planned.
Diagnosis diagnose(const DeviceModel& device, const Experiment& experiment, const DataDescription& data,
                   std::int64_t capacity, std::int64_t held_by_others, std::vector<Change> not_enough);

}  // namespace trainer
