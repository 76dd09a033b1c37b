#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/program/program.h"
#include "engine/source_location.h"

namespace trainer {

/// Below this an activation stays: its copies would cost more time than its memory is worth.
inline constexpr std::int64_t least_offloaded_bytes = std::int64_t{64} << 10;

struct OffloadOptions {
  std::span<const std::string> patterns;  ///< of engine/graph/layer_pattern.h
  SourceLocation location;                ///< where they are written
  std::int64_t least_bytes = least_offloaded_bytes;
  /// How many nodes run beside a copy before its end is waited for: as many activations are on their way at a time.
  int nodes_beside_copy = 3;
  /// How many nodes an activation must be away at least.
  int least_nodes_away = 4;
};

/// Puts the ops of Note [Offload] (engine/ops/offload.h) into a differentiated graph, behind all other passes: what
/// layers of the patterns make in the forward pass, and the backward pass reads long after that, waits in a slot of its
/// own between the two. Its copy begins where it is made, and its memory is released a few nodes behind the last that
/// reads it in the forward pass; its return begins a few nodes before the first that reads it again. Numbers stay as
/// they are. Left alone are parameters, what is given, and views; readers of a view of what returned read a view of it.
/// Throws ConfigError for a pattern that matches no layer.
void apply_offload(Graph& graph, const OffloadOptions& options);

/// Host memory that the slots of a program take.
std::int64_t offload_bytes(const Program& program);

}  // namespace trainer
