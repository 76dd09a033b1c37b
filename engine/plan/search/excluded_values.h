#pragma once

#include <cstdint>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/search/candidate.h"

namespace trainer {

/// Neighbouring values of which those from `excluded_from` on are proven not to fit.
struct ValueRange {
  std::int64_t first = 0, last = 0;
  std::int64_t excluded_from = 0;     ///< last + 1: nothing is proven
  bool differ_in_batch_only = false;  ///< the values change the batch size and nothing else
};

/// Whether two values change the batch size and nothing else.
bool differ_in_batch_only(const Candidate& low, const Candidate& high);

/// Ranges that cover [lowest, highest], in order, with what Note [Least memory] (engine/plan/search/least_memory.h)
/// proves of them: for a batch size, the width of a layer, and the repeats of layers that keep the shape of their
/// input. Of other keys nothing is proven.
std::vector<ValueRange> exclude_values(const DeviceModel& device, const WithValue& with_value, std::int64_t lowest,
                                       std::int64_t highest, std::int64_t capacity);

}  // namespace trainer
