#pragma once

#include <span>
#include <utility>
#include <vector>

#include "engine/program/schedule.h"

namespace trainer {

// Note [Sharded models]
// ~~~~~~~~~~~~~~~~~~~~~
// With parallel.shard ranks hold parts of what each of them held whole (Note [Parts of tensors] in
// engine/ops/rank_parts.h). A buffer then has a part of its tensor, and a rank updates its part of each weight alone:
//
//   optimizer    the update sums gradients so that each rank has its part of them (reduce_scatter), updates its parts
//                of weights, with its parts of state, and gathers the weights (all_gather): together the bytes of
//                all_reduce
//   gradients    the sums are made in the backward pass of each micro-batch, a bucket of parameters at a time, and
//                whole gradients live until then alone, those of two buckets at once where sums are started; micro-
//                batches behind the first are added to the parts
//   parameters   weights are gathered in front of the first of a few ops that read them, and released behind the last;
//                where that is started, parallel.prefetch of them are on their way beside those that are used
//
// Under mixed precision products read 16-bit copies, so f32 masters are cut with the optimizer's state, copies with
// weights, and copies are what is gathered; averages of weights are cut with the state. What is cut and read all the
// same, a master or an average in an evaluation, is gathered for that, too. A part that is updated within a whole
// tensor is a view of it (Buffer::view_of).
//
// Each op that communicates is run by all ranks, in one order. It is that of the graph's nodes, and gradients are
// summed in an order of their own, by descending parameter: both are the same whatever the batch size. A rank without
// samples runs those ops alone.

/// Which tensors of a model this rank has a part of.
class Sharding {
 public:
  Sharding() = default;
  explicit Sharding(const Experiment& experiment);

  bool is_on() const { return level_ != Shard::none; }
  bool gathers_weights() const { return level_ == Shard::parameters; }
  bool cuts_gradients() const { return level_ >= Shard::gradients; }
  /// The optimizer's state and averages of a parameter.
  bool cuts_state(const Parameter& parameter) const { return is_on() && parameter.is_weight && parameter.trainable; }
  bool cuts_weight(const Parameter& parameter, bool has_copy) const {
    if (level_ == Shard::parameters) return parameter.is_weight && !parameter.is_frozen();
    return has_copy && cuts_state(parameter);
  }
  bool cuts_copy(const Parameter& parameter) const { return level_ == Shard::parameters && !parameter.is_frozen(); }

 private:
  Shard level_ = Shard::none;
};

/// A buffer for a tensor of type `whole` that is kept of a parameter, or where `is_shared` for this rank's part of it,
/// and its allocation in `load`: nothing of what another stage of the pipeline holds, and of a cut layer its part.
BufferId add_kept(Program& program, Scheduler& scheduler, std::size_t parameter, std::string name, Category category,
                  const TensorType& whole, bool is_shared);

/// This rank's part of what a buffer holds: the buffer, or a view of it; -1 where it is empty.
BufferId part_of(Program& program, Scheduler& scheduler, BufferId buffer);

/// Gathers the tensors of buffers that are whole, and of which each rank has written its part.
void append_gather(Program& program, Scheduler& scheduler, Routine& routine, std::span<const BufferId> wholes,
                   Phase phase);

/// Fills the 16-bit copies of parameters from what `sources` has by parameter; -1: nothing.
void append_copies(Program& program, Scheduler& scheduler, std::span<const BufferId> sources, Routine& routine,
                   Phase phase);

/// What sums whole gradients so that this rank's parts, of those of which it has one, hold its part of the sums, and
/// its inputs.
std::pair<Op, std::vector<BufferId>> reduce_scatter_of(const Program& program, std::span<const BufferId> wholes,
                                                       std::span<const BufferId> parts, bool adds);

/// What a rank without samples runs where others run `with_samples`: the ops that communicate, with zeros for what it
/// would tell of samples, and those that read only what ranks have told (OpDefinition::needs_no_samples). Empty where
/// there is none.
Routine schedule_without_samples(Program& program, Scheduler& scheduler, const Routine& with_samples, std::string name);

}  // namespace trainer
