#include "engine/train/onnx/onnx_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/errors.h"
#include "engine/graph/tensor_pieces.h"
#include "engine/train/files/number_reader.h"
#include "engine/train/files/replaced_file.h"

namespace trainer {
namespace {

// Fields of onnx.proto.
enum ModelField : int {
  model_ir_version = 1,
  model_producer = 2,
  model_producer_version = 3,
  model_graph = 7,
  model_opset = 8
};
enum OpsetField : int { opset_domain = 1, opset_version = 2 };
constexpr int graph_initializer = 5;
enum StoredTensorField : int { tensor_raw_data = 9, tensor_external = 13, tensor_location = 14 };
enum EntryField : int { entry_key = 1, entry_value = 2 };
constexpr int is_external = 1;

std::string external_entry(const std::string& key, const std::string& value) {
  ProtobufMessage entry;
  entry.add_bytes(entry_key, key);
  entry.add_bytes(entry_value, value);
  return entry.bytes();
}

class OnnxWriting {
 public:
  OnnxWriting(const OnnxGraph& graph, const WeightsMatch& match, const WeightFiles& files, const std::string& path,
              std::int64_t most_bytes)
      : graph_(graph), files_(files), reader_(files), path_(path) {
    for (const WeightsRow& row : match.rows)
      if (row.status == WeightsStatus::loaded) rows_.emplace(row.name, &row);
    std::int64_t num_bytes = 0;
    for (const OnnxInitializer& initializer : graph.initializers()) num_bytes += initializer.num_bytes();
    has_data_file_ = num_bytes > most_bytes;
  }

  OnnxFile write(const std::string& model_name, const std::string& version) {
    std::vector<std::string> heads;
    const std::string rest = graph_.bytes_without_initializers(model_name);
    auto graph_bytes = static_cast<std::int64_t>(rest.size());
    for (const OnnxInitializer& initializer : graph_.initializers()) {
      heads.push_back(head_of(initializer));
      graph_bytes +=
          static_cast<std::int64_t>(heads.back().size()) + (is_outside(initializer) ? 0 : initializer.num_bytes());
    }
    ProtobufMessage model;
    model.add_integer(model_ir_version, onnx_ir_version);
    model.add_bytes(model_producer, "trainer");
    model.add_bytes(model_producer_version, version);
    ProtobufMessage opset;
    opset.add_bytes(opset_domain, "");
    opset.add_integer(opset_version, onnx_opset);
    model.add_bytes(model_opset, opset.bytes());
    model.begin_bytes(model_graph, graph_bytes);

    // The parameters first: what names them is not there before they are.
    if (has_data_file_) write_data();
    ReplacedFile file(path_);
    file.write(model.bytes().data(), model.bytes().size());
    file.write(rest.data(), rest.size());
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const OnnxInitializer& initializer = graph_.initializers()[i];
      file.write(heads[i].data(), heads[i].size());
      if (!is_outside(initializer)) write_numbers(initializer, file);
    }
    file.finish();
    written_.num_bytes = static_cast<std::int64_t>(model.bytes().size()) + graph_bytes;
    return written_;
  }

 private:
  bool is_outside(const OnnxInitializer& initializer) const { return has_data_file_ && !initializer.parameter.empty(); }
  std::string data_path() const { return path_ + ".data"; }

  /// The field of the graph up to its raw numbers, whose length it tells.
  std::string head_of(const OnnxInitializer& initializer) {
    ProtobufMessage tail;
    if (is_outside(initializer)) {
      tail.add_bytes(tensor_external,
                     external_entry("location", std::filesystem::path(data_path()).filename().string()));
      tail.add_bytes(tensor_external, external_entry("offset", fmt::format("{}", data_bytes_)));
      tail.add_bytes(tensor_external, external_entry("length", fmt::format("{}", initializer.num_bytes())));
      tail.add_integer(tensor_location, is_external);
      data_bytes_ += initializer.num_bytes();
    } else {
      tail.begin_bytes(tensor_raw_data, initializer.num_bytes());
    }
    const std::string head = onnx_tensor_head(initializer) + tail.bytes();
    ProtobufMessage field;
    field.begin_bytes(graph_initializer,
                      static_cast<std::int64_t>(head.size()) + (is_outside(initializer) ? 0 : initializer.num_bytes()));
    return field.bytes() + head;
  }

  void write_data() {
    ReplacedFile file(data_path());
    for (const OnnxInitializer& initializer : graph_.initializers())
      if (is_outside(initializer)) write_numbers(initializer, file);
    file.finish();
    written_.data_path = data_path();
    written_.data_bytes = data_bytes_;
  }

  void write_numbers(const OnnxInitializer& initializer, ReplacedFile& file) {
    if (initializer.parameter.empty()) return file.write(initializer.bytes.data(), initializer.bytes.size());
    const auto found = rows_.find(initializer.parameter);
    require_internal(found != rows_.end(), "each parameter of the model was matched");
    const WeightsRow& row = *found->second;
    const WeightTensor& tensor = files_.tensors()[static_cast<std::size_t>(row.tensor)];
    const std::int64_t count = initializer.num_bytes() / static_cast<std::int64_t>(sizeof(float));
    written_.num_parameters += count;
    const std::int64_t most = row.is_transposed ? count : most_piece_bytes / static_cast<std::int64_t>(sizeof(float));
    for (std::int64_t first = 0; first < count; first += most) {
      const std::int64_t piece = std::min(most, count - first);
      numbers_.resize(static_cast<std::size_t>(piece));
      reader_.read(tensor, first, piece, DType::f32, reinterpret_cast<std::byte*>(numbers_.data()));
      if (row.is_transposed) swap_axes(initializer.dims);
      file.write(numbers_.data(), numbers_.size() * sizeof(float));
    }
  }

  /// Of the whole matrix, which has these dimensions then.
  void swap_axes(const OnnxDims& dims) {
    const auto rows = static_cast<std::size_t>(dims[0]), columns = static_cast<std::size_t>(dims[1]);
    std::vector<float> turned(numbers_.size());
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column)
        turned[row * columns + column] = numbers_[column * rows + row];
    numbers_ = std::move(turned);
  }

  const OnnxGraph& graph_;
  const WeightFiles& files_;
  NumberReader reader_;
  const std::string path_;
  std::map<std::string, const WeightsRow*, std::less<>> rows_;
  bool has_data_file_ = false;
  std::int64_t data_bytes_ = 0;
  std::vector<float> numbers_;
  OnnxFile written_;
};

}  // namespace

OnnxFile write_onnx(const OnnxGraph& graph, const std::string& model_name, const std::string& trainer_version,
                    const WeightsMatch& match, const WeightFiles& files, const std::string& path,
                    std::int64_t most_bytes) {
  return OnnxWriting(graph, match, files, path, most_bytes).write(model_name, trainer_version);
}

}  // namespace trainer
