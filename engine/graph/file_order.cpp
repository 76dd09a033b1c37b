#include "engine/graph/file_order.h"

#include <algorithm>
#include <vector>

#include "engine/errors.h"

namespace trainer {

namespace {

/// Transposes `num_matrices` of (rows, columns), one behind the other, each through a copy of it.
template <typename T>
void transpose_matrices(T* elements, std::int64_t num_matrices, std::int64_t rows, std::int64_t columns) {
  const std::int64_t size = rows * columns;
  std::vector<T> copy(static_cast<std::size_t>(size));
  for (T* const end = elements + num_matrices * size; elements != end; elements += size) {
    std::copy_n(elements, size, copy.begin());
    T* to = elements;
    for (std::int64_t column = 0; column < columns; ++column)
      for (std::int64_t row = 0; row < rows; ++row) *to++ = copy[static_cast<std::size_t>(row * columns + column)];
  }
}

void transpose_matrices(DType type, std::byte* bytes, std::int64_t num_matrices, std::int64_t rows,
                        std::int64_t columns) {
  switch (size_of(type)) {
    case 1:
      return transpose_matrices(bytes, num_matrices, rows, columns);
    case 2:
      return transpose_matrices(reinterpret_cast<std::uint16_t*>(bytes), num_matrices, rows, columns);
    case 4:
      return transpose_matrices(reinterpret_cast<std::uint32_t*>(bytes), num_matrices, rows, columns);
    default:
      return transpose_matrices(reinterpret_cast<std::uint64_t*>(bytes), num_matrices, rows, columns);
  }
}

void require_window(FileOrder order, const Shape& kept) {
  require_internal(order == FileOrder::same || kept.rank() == 4, "a tensor of channels and windows has four axes");
}

}  // namespace

Shape file_shape(FileOrder order, const Shape& kept) {
  require_window(order, kept);
  return order == FileOrder::same ? kept : Shape{kept[0], kept[3], kept[1], kept[2]};
}

bool is_in_file_order(FileOrder order, const Shape& kept) {
  require_window(order, kept);
  return order == FileOrder::same || kept[3] == 1 || kept[1] * kept[2] == 1;
}

void to_file_order(FileOrder order, const TensorType& kept, std::byte* bytes) {
  const Shape& shape = kept.shape;
  if (!is_in_file_order(order, shape)) transpose_matrices(kept.dtype, bytes, shape[0], shape[1] * shape[2], shape[3]);
}

void to_device_order(FileOrder order, const TensorType& kept, std::byte* bytes) {
  const Shape& shape = kept.shape;
  if (!is_in_file_order(order, shape)) transpose_matrices(kept.dtype, bytes, shape[0], shape[3], shape[1] * shape[2]);
}

}  // namespace trainer
