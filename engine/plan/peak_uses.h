#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/live_buffers.h"
#include "engine/program/program.h"

namespace trainer {

/// What the bytes at a moment of a routine are for. Every live buffer has one use, so that they sum to `allocated`.
struct PeakUses {
  std::int64_t standing = 0;   ///< parameters, optimizer state and what else loading allocated
  std::int64_t gradients = 0;  ///< of parameters, for the update
  // Of the op that is about to run, and neither standing nor a gradient of a parameter.
  std::int64_t workspace = 0, read = 0, written = 0;
  std::int64_t kept = 0;        ///< results of the forward pass, and the batch, that the backward pass still reads
  std::int64_t recomputed = 0;  ///< what was computed again, for later ops of the backward pass
  std::int64_t waiting = 0;     ///< what else later ops of the routine read: gradients of activations

  struct KeptLayer {
    std::string layer;
    std::int64_t num_bytes = 0;
  };
  std::vector<KeptLayer> kept_by_layer;  ///< sums to `kept`; largest first, ties in order of the model

  std::int64_t total() const { return standing + gradients + workspace + read + written + kept + recomputed + waiting; }
};

/// The uses of what is live, for the next op that runs from `instruction` on.
PeakUses describe_uses(const Program& program, const LiveBuffers& live, const Routine& routine,
                       std::size_t instruction);

}  // namespace trainer
