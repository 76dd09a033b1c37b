#include "engine/train/files/weights_loading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "engine/train/files/float_tensor.h"
#include "engine/train/files/number_reader.h"
#include "engine/train/files/saved_tensors.h"

namespace trainer {
namespace {

std::int64_t bytes_of(DType type) { return static_cast<std::int64_t>(size_of(type)); }

/// Rows of a matrix, as the device keeps it, that are put together at a time: of each of the file's a part.
std::int64_t swapped_rows(const Shape& kept, DType type) {
  constexpr std::int64_t longest_part = std::int64_t{64} << 10;
  const std::int64_t row_bytes = std::max<std::int64_t>(kept[1] * bytes_of(type), 1);
  const std::int64_t most_rows = std::min(most_piece_bytes / row_bytes, longest_part);
  return std::clamp<std::int64_t>(most_rows, 1, std::max<std::int64_t>(kept[0], 1));
}

std::int64_t needed_bytes(const WeightsRow& row, const SavedTensor& saved) {
  if (!row.is_transposed) return largest_piece_bytes(saved.order, saved.kept);
  return swapped_rows(saved.kept.shape, saved.kept.dtype) * saved.kept.shape[1] * bytes_of(saved.kept.dtype);
}

class WeightsLoading {
 public:
  /// `memory` has room for the largest piece.
  WeightsLoading(const WeightFiles& files, Executor& executor, PieceMemory& memory)
      : files_(files), executor_(executor), reader_(files), memory_(memory) {}

  void load(const WeightsRow& row, const SavedTensor& saved) {
    const WeightTensor& tensor = files_.tensors()[static_cast<std::size_t>(row.tensor)];
    if (row.is_transposed) return load_swapped(tensor, saved);
    for (const TensorPiece& piece : tensor_pieces(saved.order, saved.kept)) {
      reader_.read(tensor, piece.offset / bytes_of(saved.kept.dtype), piece.kept.num_elements(), saved.kept.dtype,
                   memory_.data());
      require_finite(tensor, piece.kept);
      to_device_order(piece.order, piece.kept, memory_.data());
      executor_.write(saved.buffer, piece.offset, piece.kept.num_bytes(), memory_.data());
    }
  }

 private:
  void load_swapped(const WeightTensor& tensor, const SavedTensor& saved) {
    const std::int64_t num_rows = saved.kept.shape[0], num_columns = saved.kept.shape[1];
    const DType type = saved.kept.dtype;
    const std::int64_t most_rows = swapped_rows(saved.kept.shape, type);
    std::vector<std::byte> column(static_cast<std::size_t>(most_rows * bytes_of(type)));
    for (std::int64_t row = 0; row < num_rows; row += most_rows) {
      const std::int64_t rows = std::min(most_rows, num_rows - row);
      for (std::int64_t i = 0; i < num_columns; ++i) {
        reader_.read(tensor, i * num_rows + row, rows, type, column.data());
        for (std::int64_t j = 0; j < rows; ++j)
          std::memcpy(memory_.data() + (j * num_columns + i) * bytes_of(type), column.data() + j * bytes_of(type),
                      size_of(type));
      }
      const TensorType piece{type, Shape{rows, num_columns}};
      require_finite(tensor, piece);
      executor_.write(saved.buffer, row * num_columns * bytes_of(type), piece.num_bytes(), memory_.data());
    }
  }

  void require_finite(const WeightTensor& tensor, const TensorType& piece) {
    if (all_finite(piece, memory_.data())) return;
    throw DataError(fmt::format("{}: tensor '{}' holds a number that is not finite as {}",
                                files_.files()[tensor.file].path(), tensor.name, name_of(piece.dtype)));
  }

  const WeightFiles& files_;
  Executor& executor_;
  NumberReader reader_;
  PieceMemory& memory_;
};

}  // namespace

void load_weights(const WeightsMatch& match, const WeightFiles& files, Executor& executor, PieceMemory& memory) {
  load_weights(match, files, trained_tensors(executor.program()), executor, memory);
}

void load_weights(const WeightsMatch& match, const WeightFiles& files, const std::vector<SavedTensor>& tensors,
                  Executor& executor, PieceMemory& memory) {
  std::map<std::string_view, const SavedTensor*> by_name;
  for (const SavedTensor& saved : tensors) by_name.emplace(saved.tensor.name, &saved);
  std::vector<std::pair<const WeightsRow*, const SavedTensor*>> loaded;
  std::int64_t most_bytes = 0;
  for (const WeightsRow& row : match.rows) {
    if (row.status != WeightsStatus::loaded) continue;
    const auto found = by_name.find(row.name);
    require_internal(found != by_name.end(), "what was matched is loaded into the same model");
    loaded.emplace_back(&row, found->second);
    most_bytes = std::max(most_bytes, needed_bytes(row, *found->second));
  }
  std::optional<PieceMemory> own;
  if (most_bytes > memory.num_bytes()) own.emplace(most_bytes);
  WeightsLoading loading(files, executor, own ? *own : memory);
  for (const auto& [row, saved] : loaded) loading.load(*row, *saved);
}

}  // namespace trainer
