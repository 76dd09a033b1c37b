#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/live_buffers.h"

namespace trainer {

/// One point of a step's memory: the allocated bytes after an instruction.
struct TimelinePoint {
  Phase phase = Phase::forward;
  LayerId layer = no_layer;
  std::int64_t allocated = 0;
  CategoryBytes by_category{};  ///< whole blocks; sums to `allocated`
};

/// Who holds the allocated bytes at one moment. Whole blocks: by_category and by_layer each sum to `allocated`.
struct LiveMemory {
  CategoryBytes by_category{};
  struct LayerBytes {
    std::string layer;
    std::int64_t num_bytes = 0;
    CategoryBytes by_category{};  ///< sums to `num_bytes`
  };
  std::vector<LayerBytes> by_layer;  ///< layers that hold something, in order of the model; "(no layer)" last
  struct TopBuffer {
    std::string name, layer;
    Category category = Category::activation;
    std::int64_t num_bytes = 0;
  };
  std::vector<TopBuffer> top;  ///< the ten largest buffers
};

LiveMemory describe_live_memory(const Program& program, const LiveBuffers& live);

/// Everything known at a failed allocation, as data; the report is made from it
/// (engine/report/memory/out_of_memory_report.h).
struct OutOfMemoryContext {
  AllocationFailure failure;
  std::int64_t step = 0;  ///< 0: while loading, or in the evaluation of a run of no steps
  Phase phase = Phase::load;
  std::string layer;   ///< label, "2 (conv2d)"
  std::string op;      ///< of the op the buffer was for; empty where none
  std::string buffer;  ///< name of the buffer that could not be allocated
  Category category = Category::activation;
  bool planned = false;  ///< found by the plan before the first step
  /// Where the segment of memory.allocator: planned was refused, which holds nothing yet: the peak it was for. Then
  /// step to op, live and timeline are of the moment of that peak, as it would have been.
  std::optional<std::int64_t> refused_peak;
  LiveMemory live;
  std::vector<TimelinePoint> timeline;  ///< of this step until the failure

  /// What `live` adds up to.
  std::int64_t allocated() const { return refused_peak.value_or(failure.statistics.allocated_bytes.all.current); }
};

/// Name of the op that the instruction's buffer is for: the next one that runs; empty where none does.
std::string op_served_by(const Program& program, const Routine& routine, std::size_t instruction);

/// Collects the context from the live buffers at the moment of failure. `instruction` is the one that failed;
/// the timeline is left to the caller.
OutOfMemoryContext describe_out_of_memory(const Program& program, const LiveBuffers& live, const Routine& routine,
                                          std::size_t instruction, const AllocationFailure& failure, std::int64_t step);

}  // namespace trainer
