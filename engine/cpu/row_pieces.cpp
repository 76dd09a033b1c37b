#include "engine/cpu/row_pieces.h"

#include <omp.h>

#include <cstddef>

#include "engine/half.h"

namespace trainer {

float* RowPieces::scratch(int place) const {
  return scratch_ + (std::int64_t{omp_get_thread_num()} * num_tensors_ + place) * piece_rows(columns_) * columns_;
}

const float* RowPieces::read(const void* tensor, int place, std::int64_t begin, std::int64_t end) const {
  const std::int64_t first = begin * columns_;
  if (type_ == DType::f32) return static_cast<const float*>(tensor) + first;
  float* const to = scratch(place);
  widen(type_, static_cast<const std::byte*>(tensor) + 2 * first, to, end * columns_ - first);
  return to;
}

float* RowPieces::write(void* tensor, int place, std::int64_t begin) const {
  return type_ == DType::f32 ? static_cast<float*>(tensor) + begin * columns_ : scratch(place);
}

void RowPieces::written(void* tensor, int place, std::int64_t begin, std::int64_t end) const {
  if (type_ == DType::f32) return;
  const std::int64_t first = begin * columns_;
  narrow(type_, scratch(place), static_cast<std::byte*>(tensor) + 2 * first, end * columns_ - first);
}

}  // namespace trainer
