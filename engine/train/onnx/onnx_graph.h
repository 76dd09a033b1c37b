#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/files/protobuf_message.h"

namespace trainer {

/// Numbers of TensorProto.DataType.
enum class OnnxType : std::uint8_t { f32 = 1, u8 = 2, i64 = 7 };

using OnnxDims = std::vector<std::int64_t>;

/// A tensor that is part of a model.
struct OnnxInitializer {
  std::string name;
  OnnxType type = OnnxType::f32;
  OnnxDims dims;
  std::string bytes;      ///< little-endian; of a parameter empty
  std::string parameter;  ///< the parameter that it is, f32, in PyTorch's order; empty: none

  std::int64_t num_bytes() const;
};

struct OnnxAttribute {
  std::string name;
  std::variant<std::int64_t, float, OnnxDims, std::string> value;
};

/// A GraphProto of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (IR version 8) while it grows.
class OnnxGraph {
 public:
  /// A dimension of −1 is the batch, whatever its size.
  void add_input(const std::string& name, OnnxType type, const OnnxDims& dims);
  void add_output(const std::string& name, OnnxType type, const OnnxDims& dims);

  /// Of the operators of opset 17. Names of nodes and of what they make begin with `scope`. The name of the first
  /// output, or of all.
  std::string add(std::string_view scope, std::string_view op, const std::vector<std::string>& inputs,
                  const std::vector<OnnxAttribute>& attributes = {});
  std::vector<std::string> add_several(std::string_view scope, std::string_view op,
                                       const std::vector<std::string>& inputs, std::size_t num_outputs,
                                       const std::vector<OnnxAttribute>& attributes = {});
  /// One whose output is called `output`.
  void add_named(const std::string& output, std::string_view op, const std::vector<std::string>& inputs);

  /// Constants; the same one has one name.
  std::string numbers(const std::vector<float>& values, const OnnxDims& dims);
  std::string number(float value) { return numbers({value}, {}); }
  std::string integers(const std::vector<std::int64_t>& values);
  /// A parameter of the model, of PyTorch's shape.
  std::string parameter(const std::string& name, const OnnxDims& dims);

  const std::vector<OnnxInitializer>& initializers() const { return initializers_; }
  /// All fields of the GraphProto but its initializers.
  std::string bytes_without_initializers(const std::string& name) const;

 private:
  std::string constant(OnnxType type, const OnnxDims& dims, std::string bytes);
  void add_node(std::string_view scope, std::string_view op, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const std::vector<OnnxAttribute>& attributes);

  ProtobufMessage nodes_, inputs_, outputs_;
  std::vector<OnnxInitializer> initializers_;
  std::map<std::pair<OnnxDims, std::string>, std::string> constants_;  ///< name by dims and bytes
  std::map<std::string, std::size_t, std::less<>> parameters_;
  std::int64_t num_names_ = 0;
};

/// The fields of a TensorProto in front of its numbers.
std::string onnx_tensor_head(const OnnxInitializer& initializer);

inline constexpr int onnx_opset = 17;
inline constexpr int onnx_ir_version = 8;

}  // namespace trainer
