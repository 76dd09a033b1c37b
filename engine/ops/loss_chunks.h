#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/ops/op.h"

namespace trainer {

/// A tensor that a step of LossChunks reads or writes.
struct ChunkOperand {
  enum class Place : std::uint8_t { input, output, scratch } place = Place::input;
  int position = 0;  ///< among the inputs or outputs of the whole op, or in LossChunks::scratch
  std::int64_t row_bytes =
      0;  ///< of one row, where the step takes the chunk's rows alone; 0: the tensor from its start
};

struct ChunkStep {
  Op op;
  std::vector<ChunkOperand> inputs, outputs;
};

/// What is done once, before and after all chunks, and for a chunk: the first, which starts the sums, those that
/// follow, and the last where fewer rows are left for it.
enum class ChunkPart : std::uint8_t { before, first, next, last, after };
inline constexpr std::size_t num_chunk_parts = 5;

/// linear_cross_entropy, with its gradient or without, as a device runs it: ops on a few rows of x at a time,
/// over the operands of the whole op and some scratch. See Note [Chunked loss] in engine/ops/linear_cross_entropy.h.
struct LossChunks {
  std::int64_t rows = 0, chunk_rows = 0;  ///< chunk_rows ≤ rows
  std::vector<TensorType> scratch;
  std::array<std::vector<ChunkStep>, num_chunk_parts> parts;

  std::vector<ChunkStep>& part(ChunkPart which) { return parts[static_cast<std::size_t>(which)]; }
  /// Of the chunk that begins with `row`.
  ChunkPart part_at(std::int64_t row) const {
    if (row == 0) return ChunkPart::first;
    return row + chunk_rows <= rows ? ChunkPart::next : ChunkPart::last;
  }
  /// Of a part, the times that it is done.
  std::int64_t num_runs(ChunkPart which) const {
    if (which == ChunkPart::next) return rows / chunk_rows - 1;
    return which == ChunkPart::last && rows % chunk_rows == 0 ? 0 : 1;
  }
};

LossChunks loss_chunks(const Op& linear_cross_entropy);

}  // namespace trainer
