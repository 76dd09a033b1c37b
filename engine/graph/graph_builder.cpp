#include "engine/graph/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/config/diagnostic.h"
#include "engine/config/text/nearest_word.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

constexpr double most_graph_bytes = 0x1p50;

bool is_at_or_below(std::string_view path, std::string_view scope) {
  return path.starts_with(scope) && (path.size() == scope.size() || path[scope.size()] == '.');
}

/// Linear layers and embeddings have weights of one meaning: a row for each output, and for each index.
bool may_share(std::string_view kind, std::string_view owner) {
  const auto has_rows = [](std::string_view each) { return each == "linear" || each == "embedding"; };
  return kind == owner || (has_rows(kind) && has_rows(owner));
}

std::string described(const Parameter& parameter) {
  std::string text = file_shape(parameter.file_order, parameter.type.shape).to_string();
  if (parameter.groups > 1) text += fmt::format(" in {} groups", parameter.groups);
  return text;
}

}  // namespace

void GraphBuilder::begin_layer(std::string path, std::string kind, const SourceLocation& location, ValueId input) {
  Layer layer;
  layer.path = std::move(path);
  layer.kind = std::move(kind);
  layer.location = location;
  layer.is_frozen = frozen_ != nullptr;
  if (input >= 0) layer.input = type(input);
  layer_ = static_cast<LayerId>(graph_.layers.size());
  layer_at_[layer.path] = layer_;
  graph_.layers.push_back(std::move(layer));
  parameters_of_.emplace_back();
}

void GraphBuilder::end_layer(ValueId output) {
  if (output >= 0) graph_.layers[layer_].output = type(output);
  layer_ = no_layer;
}

void GraphBuilder::add_output(const std::string& path, const SourceLocation& location, ValueId output) {
  outputs_.push_back({path, location, output, frozen_ == nullptr});
  output_at_[path] = output;
  if (frozen_ == nullptr) return;
  for (std::size_t i = 0; i < frozen_->wanted.size(); ++i)
    if (path.substr(frozen_->prefix.size() + 1) == frozen_->wanted[i]) frozen_->outputs[i] = output;
}

std::optional<DocumentValues> GraphBuilder::documents() {
  if (!documents_ || frozen_ != nullptr) return std::nullopt;
  if (documents_->found.spans < 0) {
    Op op = document_spans_op(type(documents_->tokens), documents_->attributes);
    const std::vector<ValueId> outputs = apply(std::move(op), {documents_->tokens}, {"places"}, "spans");
    documents_->found = {outputs[0], outputs[1]};
  }
  return documents_->found;
}

bool GraphBuilder::normalises_by_batch() const {
  if (!training()) return false;
  const Layer& layer = graph_.layers[layer_];
  return trained_ == nullptr || !trained_->keeps_statistics(layer.path, layer.kind);
}

bool GraphBuilder::is_complete() const {
  return frozen_ != nullptr &&
         std::none_of(frozen_->outputs.begin(), frozen_->outputs.end(), [](ValueId output) { return output < 0; });
}

std::string GraphBuilder::find_path(const std::string& prefix, const std::string& name,
                                    const SourceLocation& location) const {
  // A frozen network knows nothing of the model around it.
  const std::string outermost = frozen_ == nullptr ? "" : frozen_->prefix;
  std::vector<std::string> scopes;
  for (std::string scope = prefix;;) {
    std::string path = scope.empty() ? name : scope + "." + name;
    if (output_at_.contains(path)) return path;
    scopes.push_back(scope);
    if (scope == outermost) break;
    const std::size_t dot = scope.rfind('.');
    scope.erase(dot == std::string::npos ? 0 : dot);
  }
  std::vector<std::string> known;
  for (const std::string& scope : scopes)
    for (const LayerOutput& output : outputs_)
      if (scope.empty() || output.path.starts_with(scope + "."))
        known.push_back(output.path.substr(scope.empty() ? 0 : scope.size() + 1));
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
    if (output.must_be_read && is_read[output.value] == 0)
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
  const auto sharing = std::find_if(sharings_.rbegin(), sharings_.rend(),
                                    [&](const Sharing& each) { return is_at_or_below(layer.path, each.path); });
  const bool is_own = sharing != sharings_.rend() && role == "bias" && is_embedding(*sharing);
  if (sharing != sharings_.rend() && !is_own) {
    const ValueId value = find_shared(*sharing, role, parameter);
    layer.shares = graph_.layers[graph_.values[value].layer].path;
    parameters_of_[layer_].push_back({std::string(role), value});
    return value;
  }
  if (frozen_ != nullptr) {
    const ValueId value = add_frozen_parameter(layer.path.substr(frozen_->prefix.size() + 1) + "." + std::string(role),
                                               std::move(parameter));
    parameters_of_[layer_].push_back({std::string(role), value});
    return value;
  }
  parameter.name = layer.path + "." + std::string(role);
  parameter.layer = layer_;
  parameter.is_weight = parameter.trainable;
  if (parameter.is_weight) layer.num_parameters += parameter.type.num_elements();
  if (trained_ != nullptr) {
    parameter.trainable = parameter.trainable && trained_->trains(layer.path, layer.kind);
    parameter.group = std::max(trained_->group_of(layer.path, layer.kind), 0);
  }
  const ValueId value = add_value(parameter.type, role, Category::parameter);
  graph_.values[value].parameter = static_cast<std::int32_t>(graph_.parameters.size());
  graph_.parameters.push_back(std::move(parameter));
  graph_.parameter_values.push_back(value);
  parameters_of_[layer_].push_back({std::string(role), value});
  return value;
}

ValueId GraphBuilder::add_constants(std::string_view name, std::vector<float> values) {
  Parameter parameter;
  parameter.type = {DType::f32, {static_cast<std::int64_t>(values.size())}};
  parameter.constants = std::move(values);
  return add_frozen_parameter(std::string(name), std::move(parameter));
}

ValueId GraphBuilder::add_frozen_parameter(const std::string& name, Parameter parameter) {
  require_internal(frozen_ != nullptr, "a frozen network is entered before it is built");
  if (const auto known = frozen_->parameters.find(name); known != frozen_->parameters.end()) return known->second;
  parameter.network = frozen_->network;
  parameter.network_name = name;
  parameter.name = graph_.layers[frozen_->owner].path + "." + name;
  parameter.layer = frozen_->owner;
  parameter.trainable = parameter.is_weight = parameter.decays = false;
  const ValueId value = add_value(parameter.type, name, Category::frozen);
  graph_.values[value].layer = frozen_->owner;
  graph_.values[value].parameter = static_cast<std::int32_t>(graph_.parameters.size());
  graph_.parameters.push_back(std::move(parameter));
  graph_.parameter_values.push_back(value);
  frozen_->parameters.emplace(name, value);
  return value;
}

void GraphBuilder::begin_sharing(std::string path, std::string owner, const SourceLocation& location) {
  sharings_.push_back({std::move(path), std::move(owner), location});
}

bool GraphBuilder::is_embedding(const Sharing& sharing) const {
  const auto found = layer_at_.find(sharing.owner + graph_.layers[layer_].path.substr(sharing.path.size()));
  return found != layer_at_.end() && graph_.layers[found->second].kind == "embedding";
}

ValueId GraphBuilder::find_shared(const Sharing& sharing, std::string_view role, const Parameter& parameter) const {
  const Layer& layer = graph_.layers[layer_];
  const std::string owner_path = sharing.owner + layer.path.substr(sharing.path.size());
  const auto refuse = [&](const std::string& difference, std::string_view expectation) {
    return located_error(
        sharing.location,
        fmt::format("layer '{}' cannot share the parameters of '{}': {}", layer.path, owner_path, difference),
        expectation);
  };
  const auto found = layer_at_.find(owner_path);
  if (found == layer_at_.end())
    throw refuse(fmt::format("there is no layer '{}'", owner_path), "layers that are called alike in both");
  const Layer& owner = graph_.layers[found->second];
  if (!may_share(layer.kind, owner.kind))
    throw refuse(fmt::format("one is of kind {}, the other {}", layer.kind, owner.kind),
                 "two layers of one kind, or linear and embedding");
  const std::vector<NamedParameter>& parameters = parameters_of_[found->second];
  const auto shared =
      std::find_if(parameters.begin(), parameters.end(), [&](const NamedParameter& each) { return each.role == role; });
  if (shared == parameters.end())
    throw refuse(fmt::format("it has a {0}, and '{1}' has no {0}", role, owner_path), "both with it or both without");
  const Parameter& its = graph_.parameters[graph_.values[shared->value].parameter];
  if (its.type != parameter.type || its.file_order != parameter.file_order || its.groups != parameter.groups)
    throw refuse(
        fmt::format("its {} is {}, and that of '{}' is {}", role, described(parameter), owner_path, described(its)),
        "parameters of the same shapes");
  return shared->value;
}

void GraphBuilder::end_sharing() {
  const Sharing sharing = std::move(sharings_.back());
  sharings_.pop_back();
  // One layer with parameters has no others below it.
  const auto single = layer_at_.find(sharing.owner);
  const bool is_single = single != layer_at_.end() && !parameters_of_[single->second].empty();
  const std::size_t begin = is_single ? static_cast<std::size_t>(single->second) : 0;
  const std::size_t end = is_single ? begin + 1 : graph_.layers.size();
  bool has_any = false;
  for (std::size_t owner = begin; owner < end; ++owner) {
    const std::string& owner_path = graph_.layers[owner].path;
    if (!is_at_or_below(owner_path, sharing.owner) || parameters_of_[owner].empty()) continue;
    has_any = true;
    const std::string path = sharing.path + owner_path.substr(sharing.owner.size());
    const auto found = layer_at_.find(path);
    for (const NamedParameter& parameter : parameters_of_[owner]) {
      const bool is_used = found != layer_at_.end() &&
                           std::any_of(parameters_of_[found->second].begin(), parameters_of_[found->second].end(),
                                       [&](const auto& each) { return each.role == parameter.role; });
      if (!is_used)
        throw located_error(sharing.location,
                            fmt::format("layer '{}' cannot share the parameters of '{}': '{}' has a {}, and '{}' has "
                                        "none",
                                        sharing.path, sharing.owner, owner_path, parameter.role, path),
                            "both with it or both without");
    }
  }
  if (!has_any)
    throw located_error(sharing.location, fmt::format("'{}' has no parameters that could be shared", sharing.owner),
                        "a layer before this one that has some");
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
