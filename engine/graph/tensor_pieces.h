#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/graph/file_order.h"
#include "engine/shape.h"

namespace trainer {

/// Note [Pieces]
/// Tensors are saved, loaded and given their first values a piece at a time, so that the host holds no copy of a whole
/// one beside the device's. A piece is a range of the tensor's bytes that is the same range in a file: any range where
/// the orders are the same, whole entries of the first axis where files have another order (Note [Orders in files] in
/// engine/train/files/saved_tensors.h), which leaves that axis first.
inline constexpr std::int64_t most_piece_bytes = std::int64_t{16} << 20;

/// A range of a tensor.
struct TensorPiece {
  std::int64_t offset = 0;            ///< bytes, on the device and in files
  TensorType kept;                    ///< as on the device
  FileOrder order = FileOrder::same;  ///< in which files have it
};

/// The pieces of a tensor, in order: each has at most `most_bytes`, or one entry of the first axis where that cannot be
/// divided and has more.
std::vector<TensorPiece> tensor_pieces(FileOrder order, const TensorType& kept,
                                       std::int64_t most_bytes = most_piece_bytes);

/// Bytes of the largest piece of a tensor.
std::int64_t largest_piece_bytes(FileOrder order, const TensorType& kept);

/// Host memory for a piece, made once and used for one after the other.
class PieceMemory {
 public:
  /// For pieces of up to `num_bytes`. Throws HostOutOfMemory.
  explicit PieceMemory(std::int64_t num_bytes);
  std::byte* data() { return bytes_.get(); }
  std::int64_t num_bytes() const { return num_bytes_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::int64_t num_bytes_ = 0;
};

}  // namespace trainer
