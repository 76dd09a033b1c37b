#include "engine/graph/graph_builder.h"

#include <fmt/format.h>

#include <utility>

#include "engine/config/diagnostic.h"
#include "engine/config/text/nearest_word.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

constexpr double most_graph_bytes = 0x1p50;

}  // namespace

void GraphBuilder::begin_layer(std::string path, std::string kind, const SourceLocation& location, ValueId input) {
  Layer layer;
  layer.path = std::move(path);
  layer.kind = std::move(kind);
  layer.location = location;
  if (input >= 0) layer.input = type(input);
  layer_ = static_cast<LayerId>(graph_.layers.size());
  graph_.layers.push_back(std::move(layer));
}

void GraphBuilder::end_layer(ValueId output) {
  if (output >= 0) graph_.layers[layer_].output = type(output);
  layer_ = no_layer;
}

void GraphBuilder::add_output(const std::string& path, const SourceLocation& location, ValueId output) {
  outputs_.push_back({path, location, output});
  output_at_[path] = output;
}

ValueId GraphBuilder::find_output(const std::string& prefix, const std::string& name,
                                  const SourceLocation& location) const {
  std::vector<std::string> known;
  for (std::string scope = prefix;;) {
    const auto found = output_at_.find(scope.empty() ? name : scope + "." + name);
    if (found != output_at_.end()) return found->second;
    for (const LayerOutput& output : outputs_)
      if (scope.empty() || output.path.starts_with(scope + "."))
        known.push_back(output.path.substr(scope.empty() ? 0 : scope.size() + 1));
    if (scope.empty()) break;
    const std::size_t dot = scope.rfind('.');
    scope.erase(dot == std::string::npos ? 0 : dot);
  }
  const std::string_view near = nearest(name, known);
  throw located_error(location, fmt::format("no layer before this one is called '{}'", name),
                      near.empty() ? "the name of a layer before it, of this list or of one around it"
                                   : fmt::format("the name of a layer before it, such as {}", near));
}

void GraphBuilder::check_outputs_are_read() const {
  std::vector<char> is_read(graph_.values.size(), 0);
  const auto read = [&](ValueId value) {
    for (; value >= 0; value = graph_.values[value].view_of) is_read[value] = 1;
  };
  for (const GraphNode& node : graph_.nodes)
    for (const ValueId input : node.inputs) read(input);
  read(graph_.prediction);
  for (const LayerOutput& output : outputs_)
    if (is_read[output.value] == 0)
      throw located_error(output.location, fmt::format("no layer reads the output of layer '{}'", output.path),
                          "a layer behind it that takes it by 'from', or the layer left out");
}

double checked_bytes(const TensorType& type) {
  auto num_bytes = static_cast<double>(size_of(type.dtype));
  for (const std::int64_t dim : type.shape) num_bytes *= static_cast<double>(dim);
  if (num_bytes > most_graph_bytes) {
    throw ShapeError(
        fmt::format("a tensor of shape {} has more elements than any machine holds", type.shape.to_string()));
  }
  return num_bytes;
}

ValueId GraphBuilder::add_value(TensorType type, std::string_view role, Category category) {
  num_bytes_ += checked_bytes(type);
  if (num_bytes_ > most_graph_bytes)
    throw ShapeError("the tensors up to here have more elements than any machine holds");
  Value value;
  value.type = type;
  value.role = role;
  value.category = category;
  value.layer = layer_;
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId GraphBuilder::add_view(ValueId base, const Shape& shape) {
  const Value& owner = graph_.values[base];
  const ValueId view = add_value({owner.type.dtype, shape}, "output", owner.category);
  graph_.values[view].view_of = base;
  return view;
}

ValueId GraphBuilder::add_parameter(std::string_view role, Parameter parameter) {
  checked_bytes(parameter.type);
  Layer& layer = graph_.layers[layer_];
  parameter.name = layer.path + "." + std::string(role);
  parameter.layer = layer_;
  if (parameter.trainable) layer.num_parameters += parameter.type.num_elements();
  const ValueId value = add_value(parameter.type, role, Category::parameter);
  graph_.values[value].parameter = static_cast<std::int32_t>(graph_.parameters.size());
  graph_.parameters.push_back(std::move(parameter));
  graph_.parameter_values.push_back(value);
  return value;
}

std::vector<ValueId> GraphBuilder::apply(Op op, std::vector<ValueId> inputs,
                                         const std::vector<std::string_view>& more_roles, std::string_view first_role) {
  std::vector<ValueId> outputs;
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    outputs.push_back(add_value(op.outputs[i], i == 0 ? first_role : more_roles.at(i - 1), Category::activation));
  graph_.layers[layer_].forward_flops += definition_of(op.kind).flops(op);
  graph_.nodes.push_back({std::move(op), std::move(inputs), outputs, layer_, Phase::forward});
  return outputs;
}

}  // namespace trainer
