#include "engine/graph/tensor_pieces.h"

#include <algorithm>
#include <new>

#include "engine/errors.h"

namespace trainer {
namespace {

/// The tensor as one that is divided along its first axis.
TensorPiece divisible(FileOrder order, const TensorType& kept) {
  if (!is_in_file_order(order, kept.shape)) return {0, kept, order};
  return {0, {kept.dtype, Shape{kept.num_elements()}}, FileOrder::same};
}

std::int64_t rows_of_piece(const TensorType& type, std::int64_t most_bytes) {
  const std::int64_t row_bytes = std::max<std::int64_t>(type.num_bytes() / type.shape[0], 1);
  return std::clamp<std::int64_t>(most_bytes / row_bytes, 1, type.shape[0]);
}

}  // namespace

std::vector<TensorPiece> tensor_pieces(FileOrder order, const TensorType& kept, std::int64_t most_bytes) {
  const TensorPiece whole = divisible(order, kept);
  const TensorType& type = whole.kept;
  std::vector<TensorPiece> pieces;
  if (type.num_elements() == 0) return pieces;
  const std::int64_t rows = rows_of_piece(type, most_bytes);
  const std::int64_t row_bytes = type.num_bytes() / type.shape[0];
  for (std::int64_t row = 0; row < type.shape[0]; row += rows)
    pieces.push_back(
        {row * row_bytes, {type.dtype, type.shape.with_batch(std::min(rows, type.shape[0] - row))}, whole.order});
  return pieces;
}

std::int64_t largest_piece_bytes(FileOrder order, const TensorType& kept) {
  const TensorType type = divisible(order, kept).kept;
  if (type.num_elements() == 0) return 0;
  return rows_of_piece(type, most_piece_bytes) * (type.num_bytes() / type.shape[0]);
}

PieceMemory::PieceMemory(std::int64_t num_bytes) try
    : bytes_(new std::byte[static_cast<std::size_t>(num_bytes)]), num_bytes_(num_bytes) {
} catch (const std::bad_alloc&) {
  throw HostOutOfMemory("a piece of a tensor on its way to or from a file", num_bytes,
                        /*depends_on_batches=*/false);
}

}  // namespace trainer
