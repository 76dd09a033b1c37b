#pragma once

#include <cstdint>

#include "engine/rank_layout.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Sends and receives]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// What one stage of a pipeline makes and another reads (Note [Pipelines] in engine/program/pipeline/stage_graph.h) is
// sent by the one and received by the other, each by an op of its own program: both run it at the same place of the
// order in which they exchange something. Its gradient goes back the same way: that of a send is a receive.

struct PeerAttributes {
  RankGroup ranks{};              ///< two, or one that tells itself nothing
  std::int64_t place = 0;         ///< of this one among them
  std::int32_t message = 0;       ///< of those of a micro-batch, which of them it is, or is the gradient of
  bool returns_gradient = false;  ///< in training
  bool starts = false;            ///< Note [Started exchanges] in finish_exchange.h
  std::int64_t peer() const { return ranks.rank_at(1 - place); }
  friend bool operator==(const PeerAttributes&, const PeerAttributes&) = default;
};

/// Of this rank's side of what goes between it and `peer`.
PeerAttributes peer_attributes(std::int64_t rank, std::int64_t peer, std::int32_t message, bool returns_gradient);

/// inputs: a tensor of any type; no outputs.
Op send_op(const TensorType& tensor, const PeerAttributes& attributes);
/// no inputs; outputs: a tensor of any type, of zeros where nobody sends.
Op receive_op(const TensorType& tensor, const PeerAttributes& attributes);

}  // namespace trainer
