#include "engine/train/onnx/onnx_graph.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "engine/errors.h"

namespace trainer {
namespace {

// Fields and enums of onnx.proto, by message.
enum GraphField : int { graph_node = 1, graph_name = 2, graph_input = 11, graph_output = 12 };
enum NodeField : int { node_input = 1, node_output = 2, node_name = 3, node_op_type = 4, node_attribute = 5 };
enum AttributeField : int {
  attribute_name = 1,
  attribute_float = 2,
  attribute_integer = 3,
  attribute_text = 4,
  attribute_integers = 8,
  attribute_type = 20
};
enum AttributeType : int { is_float = 1, is_integer = 2, is_text = 3, is_integers = 7 };
enum TensorField : int { tensor_dims = 1, tensor_data_type = 2, tensor_name = 8 };
enum ValueInfoField : int { value_name = 1, value_type = 2 };
enum TypeField : int {
  type_tensor = 1,
  tensor_element = 1,
  tensor_shape = 2,
  shape_dim = 1,
  dim_value = 1,
  dim_name = 2
};

std::string value_info(const std::string& name, OnnxType type, const OnnxDims& dims) {
  ProtobufMessage shape;
  for (const std::int64_t dim : dims) {
    ProtobufMessage size;
    if (dim < 0)
      size.add_bytes(dim_name, "batch");
    else
      size.add_integer(dim_value, dim);
    shape.add_bytes(shape_dim, size.bytes());
  }
  ProtobufMessage tensor;
  tensor.add_integer(tensor_element, static_cast<int>(type));
  tensor.add_bytes(tensor_shape, shape.bytes());
  ProtobufMessage any;
  any.add_bytes(type_tensor, tensor.bytes());
  ProtobufMessage info;
  info.add_bytes(value_name, name);
  info.add_bytes(value_type, any.bytes());
  return info.bytes();
}

std::string attribute_bytes(const OnnxAttribute& attribute) {
  ProtobufMessage message;
  message.add_bytes(attribute_name, attribute.name);
  if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
    message.add_integer(attribute_integer, *integer);
    message.add_integer(attribute_type, is_integer);
  } else if (const auto* real = std::get_if<float>(&attribute.value)) {
    message.add_float(attribute_float, *real);
    message.add_integer(attribute_type, is_float);
  } else if (const auto* integers = std::get_if<OnnxDims>(&attribute.value)) {
    for (const std::int64_t each : *integers) message.add_integer(attribute_integers, each);
    message.add_integer(attribute_type, is_integers);
  } else {
    message.add_bytes(attribute_text, std::get<std::string>(attribute.value));
    message.add_integer(attribute_type, is_text);
  }
  return message.bytes();
}

std::int64_t onnx_size_of(OnnxType type) { return type == OnnxType::i64 ? 8 : type == OnnxType::f32 ? 4 : 1; }

template <typename Number>
std::string bytes_of_numbers(const std::vector<Number>& values) {
  std::string bytes(values.size() * sizeof(Number), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

std::int64_t OnnxInitializer::num_bytes() const {
  return std::accumulate(dims.begin(), dims.end(), onnx_size_of(type), std::multiplies<>());
}

void OnnxGraph::add_input(const std::string& name, OnnxType type, const OnnxDims& dims) {
  inputs_.add_bytes(graph_input, value_info(name, type, dims));
}
void OnnxGraph::add_output(const std::string& name, OnnxType type, const OnnxDims& dims) {
  outputs_.add_bytes(graph_output, value_info(name, type, dims));
}

void OnnxGraph::add_node(std::string_view scope, std::string_view op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const std::vector<OnnxAttribute>& attributes) {
  ProtobufMessage node;
  for (const std::string& input : inputs) node.add_bytes(node_input, input);
  for (const std::string& output : outputs) node.add_bytes(node_output, output);
  node.add_bytes(node_name, fmt::format("{}/{}_{}", scope, op, num_names_));
  node.add_bytes(node_op_type, op);
  for (const OnnxAttribute& attribute : attributes) node.add_bytes(node_attribute, attribute_bytes(attribute));
  nodes_.add_bytes(graph_node, node.bytes());
}

std::vector<std::string> OnnxGraph::add_several(std::string_view scope, std::string_view op,
                                                const std::vector<std::string>& inputs, std::size_t num_outputs,
                                                const std::vector<OnnxAttribute>& attributes) {
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < num_outputs; ++i) outputs.push_back(fmt::format("{}/{}_{}", scope, num_names_++, op));
  add_node(scope, op, inputs, outputs, attributes);
  return outputs;
}

std::string OnnxGraph::add(std::string_view scope, std::string_view op, const std::vector<std::string>& inputs,
                           const std::vector<OnnxAttribute>& attributes) {
  return add_several(scope, op, inputs, 1, attributes).front();
}

void OnnxGraph::add_named(const std::string& output, std::string_view op, const std::vector<std::string>& inputs) {
  ++num_names_;
  add_node("output", op, inputs, {output}, {});
}

std::string OnnxGraph::constant(OnnxType type, const OnnxDims& dims, std::string bytes) {
  const std::string key = fmt::format("{}:{}", static_cast<int>(type), bytes);
  const auto [known, is_new] = constants_.try_emplace({dims, key}, fmt::format("constant/{}", constants_.size()));
  if (is_new) initializers_.push_back({known->second, type, dims, std::move(bytes), {}});
  return known->second;
}

std::string OnnxGraph::numbers(const std::vector<float>& values, const OnnxDims& dims) {
  return constant(OnnxType::f32, dims, bytes_of_numbers(values));
}

std::string OnnxGraph::integers(const std::vector<std::int64_t>& values) {
  return constant(OnnxType::i64, {static_cast<std::int64_t>(values.size())}, bytes_of_numbers(values));
}

std::string OnnxGraph::parameter(const std::string& name, const OnnxDims& dims) {
  const auto [known, is_new] = parameters_.try_emplace(name, initializers_.size());
  if (is_new) initializers_.push_back({name, OnnxType::f32, dims, {}, name});
  require_internal(initializers_[known->second].dims == dims, "a parameter has one shape");
  return name;
}

std::string OnnxGraph::bytes_without_initializers(const std::string& name) const {
  ProtobufMessage graph;
  graph.add_bytes(graph_name, name);
  return nodes_.bytes() + graph.bytes() + inputs_.bytes() + outputs_.bytes();
}

std::string onnx_tensor_head(const OnnxInitializer& initializer) {
  ProtobufMessage tensor;
  for (const std::int64_t dim : initializer.dims) tensor.add_integer(tensor_dims, dim);
  tensor.add_integer(tensor_data_type, static_cast<int>(initializer.type));
  tensor.add_bytes(tensor_name, initializer.name);
  return tensor.bytes();
}

}  // namespace trainer
