#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/key_effects.h"

namespace trainer {

/// What one setting of a change does.
enum class Effect : std::uint8_t {
  largest_batch,   ///< a smaller one: find_largest_batch
  smallest_batch,  ///< of one sample
  smaller_eval_batch,
  largest_eval_batch,  ///< a smaller one, the largest that was found to fit
  f32_operands,
  half_operands,
  f32_gradients,
  half_gradients,
  f32_weights,
  half_weights,
  f32_moments,
  eight_bit_moments,
  no_recomputation,
  recomputation_by_rule,  ///< train.checkpointing: sqrt
  least_recomputation,    ///< of as few activations as must be
  cheap_recomputation,
  no_cheap_recomputation,
  planned_places,
  cached_blocks,
  expandable_segments,
  fixed_segments,
  updates_in_backward,
  updates_at_end,
  shared_state,  ///< parallel.shard, each with those before it
  shared_gradients,
  shared_weights,
  unshared_model,
  exchanges_beside,  ///< parallel.overlap
  exchanges_behind,
  other_buckets,       ///< of gradients that ranks add up at a time
  other_prefetch,      ///< of weights that ranks share
  other_cut,           ///< parallel.cut: of a pipeline's stages
  more_micro_batches,  ///< parallel.micro_batches, of a pipeline
  chunked_loss,
  least_scratch,
  no_momentum,
  no_moments,      ///< SGD in the place of another optimizer
  narrower_layer,  ///< the widest that was found to fit
  fewer_repeats,   ///< the most that were found to fit
  smaller_model,   ///< by a parameter of it: the largest value that was found to fit
  higher_limit,
};

/// Another cut of an update into micro-batches.
struct UpdateCut {
  std::int64_t num_samples = 0, num_samples_before = 0;  ///< of an update
  std::int64_t num_parts = 1, batch_size = 0;

  friend bool operator==(const UpdateCut&, const UpdateCut&) = default;
};

/// Several layers of which the most narrowed is 1/divisor as wide.
struct NarrowerLayers {
  std::int64_t num_layers = 0, divisor = 1;

  friend bool operator==(const NarrowerLayers&, const NarrowerLayers&) = default;
};

using ChangePart = std::variant<Effect, UpdateCut, NarrowerLayers>;

/// A change of an experiment that was planned. Fixes, choices and adaptations are lists of these.
struct Change {
  Experiment experiment;          ///< as changed
  std::vector<std::string> set;   ///< overrides to paste: "train.batch_size=48"
  std::vector<ChangePart> parts;  ///< what they do; in words: engine/report/text/change_text.h
  NumbersEffect numbers = NumbersEffect::other;
  bool fits = true;
  std::int64_t peak_reserved = 0;  ///< of the whole run; without a bound where it does not fit
  std::int64_t capacity = 0;  ///< it was planned under: higher than asked for only where the change raises the limit
  double step_seconds = 0;    ///< predicted, of one update
  double samples_per_second = 0;    ///< predicted
  double relative_step_time = 1.0;  ///< seconds a sample against the experiment as it is; 1: unknown

  bool same_result() const { return numbers != NumbersEffect::other; }
  bool raises_limit() const { return !parts.empty() && parts.front() == ChangePart(Effect::higher_limit); }
};

/// Times whose ratio is below this are as good as equal: the cost model is not more exact.
inline constexpr double same_speed = 1.1;

/// The order in which changes are advised everywhere, the best first: a higher memory.limit, which somebody has set for
/// a reason, is the last; then what keeps the numbers better, then what keeps the model, and the optimizer; then what
/// is faster by more than the cost model can be wrong, about; then the fewer settings.
bool is_advised_before(const Change& a, const Change& b);

}  // namespace trainer
