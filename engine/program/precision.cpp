#include "engine/program/precision.h"

#include <string>
#include <utility>
#include <vector>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

class PrecisionPass {
 public:
  PrecisionPass(Graph& graph, const PrecisionOptions& options)
      : graph_(graph),
        options_(options),
        narrow_(graph.values.size(), -1),
        wide_(graph.values.size(), -1),
        name_(options.type == DType::f16 ? "fp16" : "bf16") {
    for (std::size_t v = 0; v < graph.values.size(); ++v)
      if (graph.values[v].view_of >= 0) views_.push_back(static_cast<ValueId>(v));
  }

  void run() {
    std::vector<GraphNode> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (GraphNode& node : nodes) {
      rewrite(node);
      Layer& layer = graph_.layers[node.layer];
      const bool reads_sums = !node.inputs.empty() && node.op.inputs[0].dtype == DType::f64;  // of its input, not it
      if (layer.input.dtype == DType::f32 && !node.inputs.empty() && !reads_sums)
        layer.input.dtype = node.op.inputs[0].dtype;
      if (!node.op.outputs.empty()) layer.output.dtype = node.op.outputs[0].dtype;
      graph_.nodes.push_back(std::move(node));
    }
    look_up_in_copies();
    graph_.keeps_gradients_in_f32 = options_.f32_gradients;
    if (options_.scales_loss && graph_.mode == GraphMode::training) add_loss_scale();
  }

 private:
  void rewrite(GraphNode& node) {
    const Precision precision = definition_of(node.op.kind).precision;
    bool reads_narrow = false;
    for (const ValueId input : node.inputs) reads_narrow = reads_narrow || type_of(input).dtype == options_.type;
    const bool first_is_narrow = !node.inputs.empty() && type_of(node.inputs[0]).dtype == options_.type;
    switch (precision) {
      case Precision::full:
        for (ValueId& input : node.inputs) input = widened(input, node.layer);
        break;
      case Precision::product:
        narrow_operands(node);
        break;
      case Precision::product_to_first:
        narrow_inputs(node);
        set_narrow(node.outputs[0]);
        break;
      case Precision::follows:
        if (reads_narrow) narrow_operands(node);
        break;
      case Precision::follows_first:
        if (first_is_narrow) set_narrow(node.outputs[0]);
        break;
      case Precision::lookup:
        look_up(node);
        break;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) node.op.inputs[i].dtype = type_of(node.inputs[i]).dtype;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) node.op.outputs[i].dtype = type_of(node.outputs[i]).dtype;
  }

  void look_up(GraphNode& node) {
    set_narrow(node.outputs[0]);
    const std::int32_t parameter = graph_.values[node.inputs[1]].parameter;
    if (!options_.master_weights || graph_.parameters[parameter].is_frozen())
      node.inputs[1] = narrowed_parameter(node.inputs[1], parameter);
    std::get<EmbeddingAttributes>(node.op.attributes).gradient = options_.f32_gradients ? DType::f32 : options_.type;
  }

  /// The rows of a weight that a product reads too are those of its copy, so that its gradient is one sum.
  void look_up_in_copies() {
    for (GraphNode& node : graph_.nodes) {
      if (definition_of(node.op.kind).precision != Precision::lookup) continue;
      const ValueId copy = graph_.parameter_copies[graph_.values[node.inputs[1]].parameter];
      if (copy < 0) continue;
      node.inputs[1] = copy;
      node.op.inputs[1].dtype = options_.type;
    }
  }

  void narrow_inputs(GraphNode& node) {
    for (ValueId& input : node.inputs) input = narrowed(input, node.layer);
  }

  void narrow_operands(GraphNode& node) {
    narrow_inputs(node);
    for (const ValueId output : node.outputs)
      if (type_of(output).dtype == DType::f32) set_narrow(output);
  }

  const TensorType& type_of(ValueId value) const { return graph_.values[value].type; }

  /// `value` becomes a 16-bit one, and with it every view of it.
  void set_narrow(ValueId value) {
    graph_.values[value].type.dtype = options_.type;
    for (const ValueId view : views_)
      if (graph_.values[view].view_of == value) set_narrow(view);
  }

  /// What a 16-bit op reads instead of an f32 value.
  ValueId narrowed(ValueId value, LayerId layer) {
    if (type_of(value).dtype != DType::f32) return value;
    const std::int32_t parameter = graph_.values[value].parameter;
    if (parameter >= 0) return narrowed_parameter(value, parameter);
    return cast(value, options_.type, narrow_, layer);
  }

  ValueId widened(ValueId value, LayerId layer) {
    if (type_of(value).dtype != options_.type) return value;
    return cast(value, DType::f32, wide_, layer);
  }

  ValueId narrowed_parameter(ValueId value, std::int32_t parameter) {
    if (!options_.master_weights || graph_.parameters[parameter].is_frozen()) {
      set_narrow(value);
      graph_.parameters[parameter].type.dtype = options_.type;
      return value;
    }
    ValueId& copy = graph_.parameter_copies[parameter];
    if (copy < 0) {
      Value info = graph_.values[value];
      info.type.dtype = options_.type;
      info.role += "." + name_;
      copy = add_value(std::move(info));
    }
    return copy;
  }

  ValueId cast(ValueId value, DType to, std::vector<ValueId>& known, LayerId layer) {
    if (known[value] >= 0) return known[value];
    const Op op = cast_op(type_of(value), to);
    Value info;
    info.type = op.outputs[0];
    info.role = "input." + (to == DType::f32 ? std::string("fp32") : name_);
    info.layer = layer;
    const ValueId result = add_value(std::move(info));
    graph_.nodes.push_back({op, {value}, {result}, layer, Phase::forward});
    known[value] = result;
    return result;
  }

  ValueId add_value(Value info) {
    graph_.values.push_back(std::move(info));
    narrow_.push_back(-1);
    wide_.push_back(-1);
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  void add_loss_scale() {
    Value info;
    info.type = {DType::f64, {num_loss_scale_values}};
    info.role = "scale";
    info.category = Category::optimizer_state;
    info.layer = graph_.values[graph_.loss_statistics].layer;
    graph_.loss_scale = add_value(std::move(info));
  }

  Graph& graph_;
  const PrecisionOptions options_;
  std::vector<ValueId> narrow_, wide_;  // by value: its cast; -1: none yet
  std::vector<ValueId> views_;
  std::string name_;
};

}  // namespace

PrecisionOptions precision_options(const Experiment& experiment) {
  return {.type = experiment.train.amp == Amp::fp16 ? DType::f16 : DType::bf16,
          .master_weights = experiment.memory.master_weights,
          .f32_gradients = experiment.memory.gradients == GradientStorage::f32,
          .scales_loss = experiment.train.amp == Amp::fp16};
}

void apply_precision(Graph& graph, const PrecisionOptions& options) { PrecisionPass(graph, options).run(); }

}  // namespace trainer
