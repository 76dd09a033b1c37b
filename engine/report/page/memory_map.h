#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/memory_trace.h"
#include "engine/program/program.h"

namespace trainer {

// Note [Moments]
// ~~~~~~~~~~~~~~
// A picture of memory has a moment for each op of the step, in which all is held that the op finds: what is allocated
// for it, and what is released only behind it. Where something is released behind an allocation without an op between
// them, a moment of no op stands there. So every highest point of what is allocated or reserved is the value of a
// moment.

/// A traced step as a picture shows it: rectangles from moment to moment and from address to address.
struct MemoryMap {
  struct Moment {
    std::int32_t call = -1;  ///< of the program; -1: no op
    Phase phase = Phase::load;
    LayerId layer = no_layer;
    double seconds = 0;  ///< predicted
    std::int64_t allocated = 0, reserved = 0;
  };
  /// As the step begins and ends.
  static constexpr std::int32_t before_step = -1, behind_step = -1;
  struct Block {
    BufferId buffer = -1;
    Phase phase = Phase::load;  ///< in which it was allocated; `load` of what was there before the step
    std::int32_t range = 0;     ///< of `ranges`
    std::int64_t offset = 0;    ///< in that range
    std::int64_t num_bytes = 0;
    std::int32_t begin = before_step, end = behind_step;  ///< the first moment with it, and the first without it
  };
  /// Memory that is held from the device: a segment, or pages of a range that grows.
  struct Segment {
    std::int32_t range = 0;
    std::int64_t offset = 0, num_bytes = 0;
    std::int32_t begin = before_step, end = behind_step;
  };
  /// Addresses that are held at some moment: those of a segment, or pages without a gap between them.
  struct Range {
    std::uint64_t address = 0;
    std::int64_t num_bytes = 0;
  };

  std::int64_t step = 0;
  bool evaluation = false;
  std::vector<Moment> moments;  ///< at least one
  std::vector<Block> blocks;    ///< as they were allocated
  std::vector<Segment> segments;
  std::vector<Range> ranges;  ///< by address
  std::int32_t peak = 0;      ///< the first moment with the most allocated
};

/// `call_seconds`: by call of the program.
MemoryMap make_memory_map(const Program& program, const MemoryTrace& trace, std::span<const double> call_seconds);

}  // namespace trainer
