#include "engine/train/files/exported_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "engine/errors.h"
#include "engine/graph/tensor_pieces.h"
#include "engine/train/files/exported_names.h"
#include "engine/train/files/float_tensor.h"
#include "engine/train/files/number_reader.h"
#include "engine/train/files/replaced_file.h"
#include "engine/train/files/safetensors.h"

namespace trainer {
namespace {

/// A tensor that is written, and where it comes from.
struct Exported {
  NamedTensor tensor;
  const WeightTensor* source = nullptr;
  bool is_swapped = false;  ///< a matrix whose axes are the other way round than in the source
};

Shape with_three_axes(const Shape& shape) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(std::max(3 - static_cast<int>(shape.rank()), 0)), 1);
  dims.insert(dims.end(), shape.begin(), shape.end());
  return Shape(dims);
}

class WeightsExport {
 public:
  WeightsExport(const WeightFiles& files, const std::string& path) : files_(files), reader_(files), file_(path) {}

  void write(const std::vector<Exported>& all) {
    std::vector<NamedTensor> tensors;
    tensors.reserve(all.size());
    for (const Exported& one : all) tensors.push_back(one.tensor);
    write(safetensors_beginning(tensors, {{"format", "pt"}}));
    for (const Exported& one : all) {
      if (one.is_swapped)
        write_swapped(one);
      else
        write_as_it_lies(one);
    }
    file_.finish();
  }

  std::int64_t num_bytes() const { return num_bytes_; }

 private:
  void write(const std::string& text) {
    file_.write(text.data(), text.size());
    num_bytes_ += static_cast<std::int64_t>(text.size());
  }

  void write_as_it_lies(const Exported& one) {
    const DType type = one.tensor.type.dtype;
    const std::int64_t most = most_piece_bytes / static_cast<std::int64_t>(size_of(type));
    const std::int64_t num_numbers = one.tensor.type.num_elements();
    for (std::int64_t first = 0; first < num_numbers; first += most) {
      const std::int64_t count = std::min(most, num_numbers - first);
      piece_.resize(static_cast<std::size_t>(count) * size_of(type));
      reader_.read(*one.source, first, count, type, piece_.data());
      write_piece(one, count);
    }
  }

  /// Some rows at a time, of each of which every row of the source has a part.
  void write_swapped(const Exported& one) {
    const DType type = one.tensor.type.dtype;
    const std::size_t number_bytes = size_of(type);
    const std::int64_t num_rows = one.source->type.shape[1], num_columns = one.source->type.shape[0];
    const std::int64_t row_bytes = std::max<std::int64_t>(num_columns * static_cast<std::int64_t>(number_bytes), 1);
    const std::int64_t most_rows = std::max<std::int64_t>(most_piece_bytes / row_bytes, 1);
    for (std::int64_t row = 0; row < num_rows; row += most_rows) {
      const std::int64_t rows = std::min(most_rows, num_rows - row);
      piece_.resize(static_cast<std::size_t>(rows * row_bytes));
      column_.resize(static_cast<std::size_t>(rows) * number_bytes);
      for (std::int64_t i = 0; i < num_columns; ++i) {
        reader_.read(*one.source, i * num_rows + row, rows, type, column_.data());
        for (std::int64_t j = 0; j < rows; ++j)
          std::memcpy(piece_.data() + static_cast<std::size_t>(j * num_columns + i) * number_bytes,
                      column_.data() + static_cast<std::size_t>(j) * number_bytes, number_bytes);
      }
      write_piece(one, rows * num_columns);
    }
  }

  void write_piece(const Exported& one, std::int64_t num_numbers) {
    const DType type = one.tensor.type.dtype;
    if (!all_finite({type, Shape{num_numbers}}, piece_.data()))
      throw DataError(fmt::format("{}: tensor '{}' holds a number that is not finite as {}",
                                  files_.files()[one.source->file].path(), one.source->name, name_of(type)));
    file_.write(piece_.data(), piece_.size());
    num_bytes_ += static_cast<std::int64_t>(piece_.size());
  }

  const WeightFiles& files_;
  NumberReader reader_;
  ReplacedFile file_;
  std::vector<std::byte> piece_, column_;
  std::int64_t num_bytes_ = 0;
};

}  // namespace

WeightsMatch match_of_own(const WeightFiles& files) {
  WeightsMatch match{.path = files.path(), .files = {}, .network = {}, .rows = {}};
  for (const SafetensorsFile& file : files.files()) match.files.push_back(file.path());
  for (std::size_t i = 0; i < files.tensors().size(); ++i) {
    const WeightTensor& tensor = files.tensors()[i];
    if (tensor.is_foreign)
      throw DataError(
          fmt::format("{} has a tensor '{}' of {}, which no model has", files.path(), tensor.name, tensor.dtype));
    WeightsRow row;
    row.status = WeightsStatus::loaded;
    row.name = row.file_name = tensor.name;
    row.shape = row.file_shape = tensor.type.shape;
    row.file_dtype = tensor.dtype;
    row.tensor = static_cast<std::int32_t>(i);
    match.rows.push_back(std::move(row));
  }
  return match;
}

ExportedWeights export_weights(const WeightsMatch& match, const WeightFiles& files, const NameMap* map,
                               std::optional<DType> type, const std::string& path) {
  std::vector<const WeightsRow*> rows;
  std::vector<std::string> names;
  for (const WeightsRow& row : match.rows) {
    if (row.status != WeightsStatus::loaded) continue;
    rows.push_back(&row);
    names.push_back(row.name);
  }
  std::vector<ExportedName> exported(names.size());
  if (map != nullptr) {
    exported = exported_names(*map, names);
  } else {
    for (std::size_t i = 0; i < names.size(); ++i) exported[i].name = names[i];
  }

  ExportedWeights result;
  std::vector<Exported> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const WeightTensor& source = files.tensors()[static_cast<std::size_t>(rows[i]->tensor)];
    Shape shape = *rows[i]->shape;
    if (exported[i].is_transposed && shape.rank() > 2)
      throw ConfigError(fmt::format("`transpose` of the map '{}' names '{}', which is {}, no matrix", map->name,
                                    names[i], shape.to_string()));
    const bool transposes = exported[i].is_transposed && shape.rank() == 2;
    if (transposes) shape = Shape{shape[1], shape[0]};
    if (exported[i].has_three_axes) shape = with_three_axes(shape);
    all.push_back(
        {{exported[i].name, {type.value_or(source.type.dtype), shape}}, &source, transposes != rows[i]->is_transposed});
    const DType written = all.back().tensor.type.dtype;
    if (std::find(result.types.begin(), result.types.end(), written) == result.types.end())
      result.types.push_back(written);
    result.num_numbers += shape.num_elements();
  }
  result.num_tensors = static_cast<std::int64_t>(all.size());
  WeightsExport writer(files, path);
  writer.write(all);
  result.num_bytes = writer.num_bytes();
  return result;
}

}  // namespace trainer
