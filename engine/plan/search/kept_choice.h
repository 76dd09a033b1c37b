#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/search/candidate.h"
#include "engine/plan/search/sized_program.h"
#include "engine/program/recompute/recompute.h"

namespace trainer {

/// What is kept for the backward pass where cheap ops are computed again (memory.recompute_cheap), by batch size.
class KeptChoice {
 public:
  /// Nothing where a value is not linear in the batch size, or the choices at the two ends differ.
  static std::optional<KeptChoice> make(const Candidate& low, const Candidate& high, const DeviceModel& device);

  /// Whether the choice at a batch size between the two is theirs.
  bool is_alike(std::int64_t batch_size) { return is_alike_throughout_ || kept_at(batch_size) == kept_; }
  /// Whether it is theirs at all of them, so that is_alike does no work.
  bool is_alike_throughout() const { return is_alike_throughout_; }
  std::int64_t num_nodes() const { return static_cast<std::int64_t>(graph_.nodes.size()); }

 private:
  RecomputeOptions options() const {
    return {.checkpointing = &checkpointing_, .cheap = cheap_, .in_place = in_place_};
  }
  std::vector<bool> kept_at(std::int64_t batch_size);
  bool are_comparisons_alike(std::int64_t low, std::int64_t high);

  CheckpointingConfig checkpointing_;
  bool cheap_ = true, in_place_ = true;
  Graph graph_;  ///< of the high batch size
  RecomputeProblem problem_;
  std::vector<SizedBytes> bytes_;  ///< by value
  std::vector<bool> is_used_, kept_;
  bool is_alike_throughout_ = false;
};

}  // namespace trainer
