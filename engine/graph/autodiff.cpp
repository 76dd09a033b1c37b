#include <string>
#include <utility>

#include "engine/graph/graph.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// Reverse-mode differentiation: walks the forward nodes backwards and lets each op's rule emit its backward ops.
class Differentiation {
 public:
  explicit Differentiation(Graph& graph) : graph_(graph) {
    // Nodes and values only ever grow; the forward ones keep their places.
    num_forward_nodes_ = graph.nodes.size();
    needs_gradient_.resize(graph.values.size(), false);
    gradients_.resize(graph.values.size(), -1);
    is_shared_input_.resize(graph.values.size(), false);
    first_reader_.resize(graph.shared_inputs.size(), num_forward_nodes_);
    for (const SharedInput& shared : graph.shared_inputs) is_shared_input_[shared.view] = true;
    for (std::size_t i = num_forward_nodes_; i-- > 0;)
      for (std::size_t s = 0; s < first_reader_.size(); ++s)
        for (const ValueId input : graph.nodes[i].inputs)
          if (input == graph.shared_inputs[s].view) first_reader_[s] = i;
  }

  void run() {
    find_needed();
    for (std::size_t i = num_forward_nodes_; i-- > 0; leave_shared_inputs(i)) {
      const auto differentiate_op = definition_of(graph_.nodes[i].op.kind).differentiate;
      const bool is_last = graph_.nodes[i].outputs.empty();  // a loss, or what is sent
      if (differentiate_op == nullptr) continue;
      if (!is_last && gradients_[graph_.nodes[i].outputs[0]] < 0) continue;
      Scope scope(*this, graph_.nodes[i]);
      differentiate_op(scope);
    }
    for (std::size_t p = 0; p < graph_.parameters.size(); ++p) adopt_gradient(p);
  }

 private:
  class Scope final : public GradientScope {
   public:
    // The node is copied: emitting grows the list it stands in.
    Scope(Differentiation& owner, GraphNode node) : owner_(owner), node_(std::move(node)) {}

    const Op& op() const override { return node_.op; }
    Operand input(int position) const override { return node_.inputs[position]; }
    Operand output(int position) const override { return node_.outputs[position]; }
    Operand output_gradient() override { return owner_.gradients_[node_.outputs[0]]; }
    bool needs_gradient(int position) const override { return owner_.needs_gradient_[node_.inputs[position]]; }
    std::vector<Operand> emit(Op op, std::vector<Operand> inputs) override {
      return owner_.emit(std::move(op), std::move(inputs), node_.layer);
    }
    Operand view(Operand of, const Shape& shape) override {
      const ValueId made = owner_.add_value({owner_.graph_.values[of].type.dtype, shape}, "output.grad", node_.layer);
      owner_.graph_.values[made].view_of = of;
      return made;
    }
    void set_gradient(int position, Operand gradient) override {
      if (!owner_.needs_gradient_[node_.inputs[position]]) return;  // of what is frozen
      const bool is_loss = node_.outputs.empty() && definition_of(node_.op.kind).role != Role::communication;
      if (is_loss && owner_.graph_.loss_scale >= 0) gradient = owner_.scale_gradient(gradient, node_.layer);
      owner_.add_gradient(node_.inputs[position], gradient, node_.layer);
    }

   private:
    Differentiation& owner_;
    GraphNode node_;
  };

  void find_needed() {
    for (std::size_t p = 0; p < graph_.parameters.size(); ++p)
      needs_gradient_[value_of_parameter(p)] = graph_.parameters[p].trainable;
    for (const GraphNode& node : graph_.nodes) {
      bool needed = node.op.kind == OpKind::receive && attributes_of<PeerAttributes>(node.op).returns_gradient;
      for (ValueId input : node.inputs) needed = needed || needs(input);
      for (ValueId output : node.outputs) needs_gradient_[output] = needed;
    }
    // Rules ask about the value they read, which may be a view.
    for (std::size_t v = 0; v < graph_.values.size(); ++v) needs_gradient_[v] = needs(static_cast<ValueId>(v));
  }

  /// Where the first of what reads a shared input has gone back: its gradient is summed over ranks.
  void leave_shared_inputs(std::size_t node) {
    for (std::size_t s = 0; s < first_reader_.size(); ++s) {
      const SharedInput shared = graph_.shared_inputs[s];
      const ValueId gradient = gradients_[shared.view];
      if (first_reader_[s] != node || gradient < 0) continue;
      const LayerId layer = graph_.nodes[node].layer;
      emit(all_reduce_op({&graph_.values[gradient].type, 1}, shared.ranks), {gradient}, layer);
      is_shared_input_[shared.view] = false;
      gradients_[shared.view] = -1;
      add_gradient(shared.view, gradient, layer);
    }
  }

  /// What the ops of the model read.
  ValueId value_of_parameter(std::size_t p) const {
    return graph_.parameter_copies[p] >= 0 ? graph_.parameter_copies[p] : graph_.parameter_values[p];
  }

  bool needs(ValueId value) const { return needs_gradient_[root_of(graph_, value)]; }

  bool is_shared_input(ValueId value) const {
    return static_cast<std::size_t>(value) < is_shared_input_.size() && is_shared_input_[value];
  }

  ValueId add_value(TensorType type, std::string role, LayerId layer) {
    Value value;
    value.type = type;
    value.role = std::move(role);
    value.category = Category::temporary;
    value.layer = layer;
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  std::vector<ValueId> emit(Op op, std::vector<ValueId> inputs, LayerId layer) {
    std::vector<ValueId> outputs;
    for (const TensorType& type : op.outputs) outputs.push_back(add_value(type, "output.grad", layer));
    graph_.nodes.push_back({std::move(op), std::move(inputs), outputs, layer, Phase::backward});
    return outputs;
  }

  ValueId scale_gradient(ValueId gradient, LayerId layer) {
    return emit(scale_gradient_op(graph_.values[gradient].type), {gradient, graph_.loss_scale}, layer)[0];
  }

  void add_gradient(ValueId value, ValueId gradient, LayerId layer) {
    // The gradient of a view is the gradient of what it views, in that shape.
    while (graph_.values[value].view_of >= 0 && !is_shared_input(value)) {
      value = graph_.values[value].view_of;
      const ValueId view = add_value(graph_.values[value].type, "input.grad", layer);
      graph_.values[view].view_of = gradient;
      gradient = view;
    }
    if (const std::int32_t parameter = graph_.values[value].parameter; parameter >= 0) {
      const std::string role = gradient_role(parameter);
      const TensorType type = graph_.values[gradient].type;
      if (graph_.keeps_gradients_in_f32 && type.dtype != DType::f32) {
        graph_.values[gradient].role = role + "." + std::string(name_of(type.dtype));
        gradient = emit(cast_op(type, DType::f32), {gradient}, layer)[0];
      }
      graph_.values[gradient].role = role + ".partial";
    } else if (graph_.values[gradient].role == "output.grad" && graph_.values[gradient].layer == layer) {
      graph_.values[gradient].role = "input.grad";
    }
    ValueId& sum = gradients_[value];
    if (sum >= 0 && add_in_place(gradient, sum)) return;
    sum = sum < 0 ? gradient : emit(add_op(graph_.values[gradient].type), {sum, gradient}, layer)[0];
    if (graph_.values[value].parameter >= 0 && sum != gradient)
      graph_.values[sum].role = gradient_role(graph_.values[value].parameter) + ".sum";
  }

  /// Has the op that just made `gradient` add it to `sum` instead, where it can.
  bool add_in_place(ValueId gradient, ValueId sum) {
    GraphNode& node = graph_.nodes.back();
    const auto adding = definition_of(node.op.kind).adding;
    if (adding == nullptr || node.outputs != std::vector{gradient} || node.op.outputs[0] != graph_.values[sum].type)
      return false;
    node.op = adding(node.op);
    node.inputs.push_back(sum);
    node.outputs.clear();
    return true;
  }

  std::string gradient_role(std::int32_t parameter) const {
    return graph_.values[graph_.parameter_values[parameter]].role + ".grad";
  }

  /// What is there once every use of the parameter has added its part is its gradient: Note [Shared parameters] in
  /// engine/graph/graph_builder.h.
  void adopt_gradient(std::size_t p) {
    const ValueId gradient = gradients_[value_of_parameter(p)];
    graph_.parameter_gradients[p] = gradient;
    if (gradient < 0) return;
    Value& value = graph_.values[gradient];
    value.role = gradient_role(static_cast<std::int32_t>(p));
    value.category = Category::gradient;
    value.layer = graph_.parameters[p].layer;
  }

  Graph& graph_;
  std::size_t num_forward_nodes_ = 0;
  std::vector<bool> needs_gradient_;
  std::vector<ValueId> gradients_;
  std::vector<bool> is_shared_input_;      ///< by forward value, until its gradient is that of what it views
  std::vector<std::size_t> first_reader_;  ///< by shared input, the node
};

}  // namespace

void differentiate(Graph& graph) { Differentiation(graph).run(); }

}  // namespace trainer
