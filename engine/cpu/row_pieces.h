#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/dtype.h"

namespace trainer {

/// Rows of f32, f16 or bf16 for loops over f32: they are visited where they lie, or where they are 16 bit in pieces
/// that go through scratch of the calling thread.
class RowPieces {
 public:
  /// Of a piece of 16-bit rows: 64, fewer where they are long.
  static constexpr std::int64_t piece_rows(std::int64_t columns) {
    constexpr std::int64_t most_rows = 64, most_elements = 1 << 16;
    return std::clamp<std::int64_t>(most_elements / std::max<std::int64_t>(1, columns), 1, most_rows);
  }

  /// `scratch` holds num_scratch_bytes.
  RowPieces(DType type, std::int64_t columns, int num_tensors, void* scratch)
      : type_(type), columns_(columns), num_tensors_(num_tensors), scratch_(static_cast<float*>(scratch)) {}

  /// For tensors that are visited side by side; 0 for f32.
  static std::int64_t num_scratch_bytes(DType type, std::int64_t columns, int num_tensors, int num_threads) {
    if (type == DType::f32) return 0;
    return num_threads * num_tensors * piece_rows(columns) * columns * static_cast<std::int64_t>(sizeof(float));
  }

  /// Calls visit(begin, end) for pieces of rows [begin, end), in order.
  template <typename Visit>
  void for_each(std::int64_t begin, std::int64_t end, Visit&& visit) const {
    const std::int64_t rows = type_ == DType::f32 ? std::max<std::int64_t>(1, end - begin) : piece_rows(columns_);
    for (std::int64_t row = begin; row < end; row += rows) visit(row, std::min(end, row + rows));
  }

  /// Rows [begin, end) of `tensor` as f32; `place` tells tensors apart that are visited side by side.
  const float* read(const void* tensor, int place, std::int64_t begin, std::int64_t end) const;
  /// Where rows from `begin` on are to be written, then to be told by `written`; at the place of a tensor that is read
  /// it may be the same memory.
  float* write(void* tensor, int place, std::int64_t begin) const;
  void written(void* tensor, int place, std::int64_t begin, std::int64_t end) const;

 private:
  float* scratch(int place) const;

  DType type_;
  std::int64_t columns_;
  int num_tensors_;
  float* scratch_;
};

}  // namespace trainer
