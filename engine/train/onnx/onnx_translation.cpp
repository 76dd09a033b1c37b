#include "engine/train/onnx/onnx_translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "engine/config/diagnostic.h"
#include "engine/ops/op.h"
#include "engine/train/onnx/onnx_images.h"
#include "engine/train/onnx/onnx_values.h"

namespace trainer {
namespace {

constexpr const char* onnx_output_name = "logits";

OnnxType onnx_type_of(DType type) {
  switch (type) {
    case DType::u8:
      return OnnxType::u8;
    case DType::i32:
      return OnnxType::i64;
    default:
      return OnnxType::f32;
  }
}

class OnnxTranslation {
 public:
  OnnxTranslation(const Graph& graph, const DataDescription& data)
      : graph_(graph), data_(data), values_(graph, onnx_), is_needed_(graph.nodes.size(), false) {
    find_needed();
  }

  OnnxGraph translate() {
    add_inputs();
    for (std::size_t p = 0; p < graph_.parameters.size(); ++p) {
      const Parameter& parameter = graph_.parameters[p];
      if (parameter.is_frozen()) continue;
      const Shape shape = file_shape(parameter.file_order, parameter.type.shape);
      parameter_dims_.emplace(graph_.parameter_values[p], OnnxDims(shape.begin(), shape.end()));
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!is_needed_[n]) continue;
      node_ = &graph_.nodes[n];
      values_.enter(layer().path);
      translate_node();
    }
    values_.enter("output");
    const Shape& shape = values_.shape(graph_.prediction);
    onnx_.add_named(onnx_output_name, "Identity", {values_.last(graph_.prediction)});
    onnx_.add_output(onnx_output_name, OnnxType::f32, OnnxValues::any_batch(shape));
    return std::move(onnx_);
  }

 private:
  const Op& op() const { return node_->op; }
  const Layer& layer() const { return graph_.layers[node_->layer]; }
  ValueId in(std::size_t i) const { return node_->inputs[i]; }
  ValueId out() const { return node_->outputs[0]; }

  /// What the prediction is made of, and nothing that the loss adds.
  void find_needed() {
    require_internal(graph_.prediction >= 0, "a graph before any pass has its logits");
    std::vector<bool> is_read(graph_.values.size(), false);
    const auto read = [&](ValueId value) {
      for (; value >= 0; value = graph_.values[value].view_of) is_read[static_cast<std::size_t>(value)] = true;
    };
    read(graph_.prediction);
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      const GraphNode& node = graph_.nodes[n];
      is_needed_[n] = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId value) { return is_read[static_cast<std::size_t>(value)]; });
      if (is_needed_[n]) std::for_each(node.inputs.begin(), node.inputs.end(), read);
    }
  }

  void add_inputs() {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ValueId value = graph_.inputs[i];
      const std::string name = graph_.inputs.size() == 1 ? "input" : data_.inputs[i].name;
      onnx_.add_input(name, onnx_type_of(graph_.values[value].type.dtype), OnnxValues::any_batch(values_.shape(value)));
      values_.set_last(value, name);
    }
  }

  /// A weight or statistic, in PyTorch's shape.
  std::string parameter(std::size_t i) {
    const ValueId value = in(i);
    const auto& parameter = graph_.parameters[static_cast<std::size_t>(graph_.values[value].parameter)];
    return onnx_.parameter(parameter.name, parameter_dims_.at(value));
  }
  std::string parameter_or_none(std::size_t i) { return node_->inputs.size() > i ? parameter(i) : std::string(); }

  [[noreturn]] void refuse(const std::string& what) const {
    throw located_error(
        layer().location,
        fmt::format("layer '{}': {} has no form in ONNX; write safetensors with -o instead", layer().path, what));
  }

  /// Element by element, in the order that x has.
  template <typename Make>
  void each_element(const Make& make) {
    const bool is_first = values_.is_first(in(0));
    const std::string y = make(is_first ? values_.first(in(0)) : values_.last(in(0)));
    is_first ? values_.set_first(out(), y) : values_.set_last(out(), y);
  }
  /// The same of two operands of one shape.
  void two_operands(const char* name) {
    const bool is_first = values_.is_first(in(0)) || values_.is_first(in(1));
    const auto operand = [&](std::size_t i) { return is_first ? values_.first(in(i)) : values_.last(in(i)); };
    const std::string y = values_.add(name, {operand(0), operand(1)});
    is_first ? values_.set_first(out(), y) : values_.set_last(out(), y);
  }

  void translate_node() {
    const std::string bias =
        op().kind == OpKind::conv2d || op().kind == OpKind::conv_transpose2d || op().kind == OpKind::linear
            ? parameter_or_none(2)
            : std::string();
    switch (op().kind) {
      case OpKind::normalize_pixels:
        return translate_pixels();
      case OpKind::linear:
        return translate_linear(bias);
      case OpKind::conv2d:
        return values_.set_first(out(), onnx_convolution(values_, op(), values_.first(in(0)), parameter(1), bias));
      case OpKind::conv_transpose2d:
        return values_.set_first(out(),
                                 onnx_transposed_convolution(values_, op(), values_.first(in(0)), parameter(1), bias));
      case OpKind::batchnorm2d_inference:
        return translate_batchnorm();
      case OpKind::layernorm:
        return translate_layernorm();
      case OpKind::groupnorm:
        return translate_groupnorm();
      case OpKind::attention:
        return translate_attention();
      case OpKind::activation:
        return each_element([&](const std::string& x) { return activated(x); });
      case OpKind::glu:
        return translate_glu();
      case OpKind::prelu:
        return translate_prelu();
      case OpKind::maxpool2d:
        return values_.set_first(out(), onnx_max_pooling(values_, op(), values_.first(in(0))));
      case OpKind::avgpool2d:
        return values_.set_first(out(), onnx_mean_pooling(values_, op(), values_.first(in(0))));
      case OpKind::adaptive_avgpool2d:
        return values_.set_first(out(), onnx_adaptive_mean_pooling(values_, op(), values_.first(in(0))));
      case OpKind::upsample:
        return values_.set_first(out(), onnx_upsampling(values_, op(), values_.first(in(0))));
      case OpKind::pad:
        return values_.set_first(out(), onnx_padding(values_, op(), values_.first(in(0))));
      case OpKind::global_avgpool:
        return values_.set_last(out(), values_.add("ReduceMean", {values_.first(in(0))},
                                                   {{"axes", OnnxDims{2, 3}}, {"keepdims", std::int64_t{0}}}));
      case OpKind::flatten:
        return values_.set_last(out(),
                                values_.reshaped(values_.first(in(0)), OnnxValues::any_batch(values_.shape(out()))));
      case OpKind::embedding:
        return values_.set_last(
            out(), values_.add("Gather", {parameter(1), values_.last(in(0))}, {{"axis", std::int64_t{0}}}));
      case OpKind::position_embedding:
        return translate_positions();
      case OpKind::add:
        return two_operands("Add");
      case OpKind::multiply:
        return translate_product();
      case OpKind::concat:
        return translate_concat();
      case OpKind::channel_slice:
        return translate_slice();
      case OpKind::repeat_row:
        return translate_repeated_row();
      case OpKind::document_spans:
        refuse("attention within documents (data.document_token, data.pad_token)");
      default:
        refuse(fmt::format("the op '{}'", name_of(op().kind)));
    }
  }

  void translate_pixels() {
    const auto& attributes = attributes_of<NormalizePixelsAttributes>(op());
    const auto channels = static_cast<std::int64_t>(attributes.scale.size());
    const std::string numbers =
        values_.add("Cast", {values_.last(in(0))}, {{"to", static_cast<std::int64_t>(OnnxType::f32)}});
    const std::string scaled = values_.add("Mul", {numbers, onnx_.numbers(attributes.scale, {channels})});
    values_.set_last(out(), values_.add("Add", {scaled, onnx_.numbers(attributes.offset, {channels})}));
  }

  void translate_linear(const std::string& bias) {
    const std::string x = values_.last(in(0)), weight = parameter(1);
    if (values_.rank(in(0)) == 2) {
      std::vector<std::string> inputs = {x, weight};
      if (!bias.empty()) inputs.push_back(bias);
      return values_.set_last(out(), values_.add("Gemm", inputs, {{"transB", std::int64_t{1}}}));
    }
    const std::string product = values_.add("MatMul", {x, values_.turned(weight, {1, 0})});
    values_.set_last(out(), bias.empty() ? product : values_.add("Add", {product, bias}));
  }

  void translate_batchnorm() {
    const auto& attributes = attributes_of<BatchNorm2dAttributes>(op());
    const std::int64_t channels = values_.shape(in(0))[-1];
    const auto filled = [&](float value) {
      return onnx_.numbers(std::vector<float>(static_cast<std::size_t>(channels), value), {channels});
    };
    values_.set_first(out(), values_.add("BatchNormalization",
                                         {values_.first(in(0)), attributes.affine ? parameter(3) : filled(1),
                                          attributes.affine ? parameter(4) : filled(0), parameter(1), parameter(2)},
                                         {{"epsilon", static_cast<float>(attributes.eps)}}));
  }

  void translate_layernorm() {
    const auto& attributes = attributes_of<LayerNormAttributes>(op());
    const std::string x = values_.last(in(0));
    const std::int64_t channels = values_.shape(in(0))[-1];
    if (attributes.centres) {
      std::vector<std::string> inputs = {x};
      if (attributes.affine) {
        inputs.push_back(parameter(1));
        inputs.push_back(parameter(2));
      } else {
        inputs.push_back(onnx_.numbers(std::vector<float>(static_cast<std::size_t>(channels), 1), {channels}));
      }
      return values_.set_last(
          out(), values_.add("LayerNormalization", inputs,
                             {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(attributes.eps)}}));
    }
    const std::string squares = values_.add("ReduceMean", {values_.add("Mul", {x, x})},
                                            {{"axes", OnnxDims{-1}}, {"keepdims", std::int64_t{1}}});
    const std::string size =
        values_.add("Sqrt", {values_.add("Add", {squares, onnx_.number(static_cast<float>(attributes.eps))})});
    const std::string y = values_.add("Div", {x, size});
    values_.set_last(out(), attributes.affine ? values_.add("Mul", {y, parameter(1)}) : y);
  }

  void translate_groupnorm() {
    const auto& attributes = attributes_of<GroupNormAttributes>(op());
    const Shape& shape = values_.shape(in(0));
    const std::int64_t channels = shape[-1], places = shape.num_elements() / shape[0] / channels;
    // Each group is a channel of more places.
    const std::string groups =
        values_.reshaped(values_.first(in(0)), {-1, attributes.groups, channels / attributes.groups * places});
    const auto filled = [&](float value) {
      return onnx_.numbers(std::vector<float>(static_cast<std::size_t>(attributes.groups), value), {attributes.groups});
    };
    const std::string normal = values_.add("InstanceNormalization", {groups, filled(1), filled(0)},
                                           {{"epsilon", static_cast<float>(attributes.eps)}});
    OnnxDims dims = {-1, channels};
    for (int axis = 1; axis + 1 < shape.rank(); ++axis) dims.push_back(shape[axis]);
    std::string y = values_.reshaped(normal, dims);
    if (attributes.affine) {
      OnnxDims of_channels(dims.size() - 1, 1);
      of_channels.front() = channels;
      y = values_.add("Mul", {y, values_.reshaped(parameter(1), of_channels)});
      y = values_.add("Add", {y, values_.reshaped(parameter(2), of_channels)});
    }
    values_.set_first(out(), y);
  }

  void translate_attention() {
    if (attributes_of<AttentionAttributes>(op()).has_spans)
      refuse("attention within documents (data.document_token, data.pad_token)");
    const std::vector<std::string> operands = [&] {
      std::vector<std::string> names;
      for (const ValueId input : node_->inputs) {
        const Shape& shape = values_.shape(input);
        const std::string name = values_.last(input);
        // Pixels are positions.
        names.push_back(shape.rank() == 4 ? values_.reshaped(name, {-1, shape[1] * shape[2], shape[3]}) : name);
      }
      return names;
    }();
    const std::string y = onnx_attention(values_, op(), operands);
    values_.set_last(out(),
                     values_.rank(out()) == 3 ? y : values_.reshaped(y, OnnxValues::any_batch(values_.shape(out()))));
  }

  std::string product(const std::string& a, const std::string& b) { return values_.add("Mul", {a, b}); }

  std::string gelu(const std::string& x, GeluApproximation approximate) {
    const std::string one = onnx_.number(1), half = onnx_.number(0.5F);
    std::string inner;
    if (approximate == GeluApproximation::tanh) {
      const std::string cube = product(product(x, x), x);
      const std::string sum = values_.add("Add", {x, product(cube, onnx_.number(0.044715F))});
      const auto factor = static_cast<float>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
      inner = values_.add("Tanh", {product(sum, onnx_.number(factor))});
    } else {
      inner = values_.add("Erf", {product(x, onnx_.number(static_cast<float>(1 / std::numbers::sqrt2)))});
    }
    return product(product(x, half), values_.add("Add", {inner, one}));
  }
  std::string silu(const std::string& x) { return product(x, values_.add("Sigmoid", {x})); }

  std::string activated(const std::string& x) {
    const auto& attributes = attributes_of<ActivationAttributes>(op());
    switch (attributes.function) {
      case Activation::relu:
        return values_.add("Relu", {x});
      case Activation::gelu:
        return gelu(x, attributes.approximate);
      case Activation::silu:
        return silu(x);
      case Activation::tanh:
        return values_.add("Tanh", {x});
      case Activation::sigmoid:
        return values_.add("Sigmoid", {x});
      case Activation::leaky_relu:
        return values_.add("LeakyRelu", {x}, {{"alpha", static_cast<float>(attributes.slope)}});
      case Activation::relu6:
        return values_.add("Clip", {x, onnx_.number(0), onnx_.number(6)});
      case Activation::hardswish:
        return values_.add("HardSwish", {x});
      case Activation::hardsigmoid:
        return values_.add("HardSigmoid", {x}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}});
    }
    refuse("this activation");
  }

  void translate_glu() {
    const auto& attributes = attributes_of<GluAttributes>(op());
    std::string gate, up;
    if (node_->inputs.size() == 1) {
      const std::int64_t half = values_.shape(in(0))[-1] / 2;
      const std::vector<std::string> halves =
          onnx_.add_several(values_.scope(), "Split", {values_.last(in(0)), onnx_.integers({half, half})}, 2,
                            {{"axis", std::int64_t{-1}}});
      gate = halves[0];
      up = halves[1];
    } else {
      gate = values_.last(in(0));
      up = values_.last(in(1));
    }
    const std::string open = attributes.function == Activation::gelu ? gelu(gate, attributes.approximate) : silu(gate);
    values_.set_last(out(), product(open, up));
  }

  void translate_prelu() { values_.set_last(out(), values_.add("PRelu", {values_.last(in(0)), parameter(1)})); }

  void translate_positions() {
    if (node_->inputs.size() > 2) refuse("positions within documents (data.document_token, data.pad_token)");
    const std::int64_t places = values_.shape(in(0))[1];
    std::string rows = parameter(1);
    if (places < parameter_dims_.at(in(1)).front())
      rows = values_.add("Slice", {rows, onnx_.integers({0}), onnx_.integers({places}), onnx_.integers({0})});
    values_.set_last(out(), values_.add("Add", {values_.last(in(0)), rows}));
  }

  void translate_product() {
    const Shape &x = values_.shape(in(0)), &factor = values_.shape(in(1));
    if (x == factor) return two_operands("Mul");
    // One number for each channel of an image.
    const std::string gate = values_.reshaped(values_.last(in(1)), {-1, x[-1], 1, 1});
    values_.set_first(out(), values_.add("Mul", {values_.first(in(0)), gate}));
  }

  void translate_concat() {
    const bool is_first =
        std::any_of(node_->inputs.begin(), node_->inputs.end(), [&](ValueId input) { return values_.is_first(input); });
    std::vector<std::string> parts;
    for (const ValueId input : node_->inputs) parts.push_back(is_first ? values_.first(input) : values_.last(input));
    const std::string y = values_.add("Concat", parts, {{"axis", std::int64_t{is_first ? 1 : -1}}});
    is_first ? values_.set_first(out(), y) : values_.set_last(out(), y);
  }

  void translate_slice() {
    const std::int64_t first = attributes_of<ChannelSliceAttributes>(op()).first;
    values_.set_last(out(),
                     values_.add("Slice", {values_.last(in(0)), onnx_.integers({first}),
                                           onnx_.integers({first + values_.shape(out())[-1]}), onnx_.integers({-1})}));
  }

  /// As often as there are samples, which the model's input tells.
  void translate_repeated_row() {
    const std::string sizes = values_.add("Shape", {values_.last(graph_.inputs.front())});
    const std::string samples =
        values_.add("Slice", {sizes, onnx_.integers({0}), onnx_.integers({1}), onnx_.integers({0})});
    const std::string dims =
        values_.add("Concat", {samples, onnx_.integers({values_.shape(out())[-1]})}, {{"axis", std::int64_t{0}}});
    values_.set_last(out(), values_.add("Expand", {parameter(0), dims}));
  }

  const Graph& graph_;
  const DataDescription& data_;
  OnnxGraph onnx_;
  OnnxValues values_;
  std::vector<bool> is_needed_;  ///< by node
  std::map<ValueId, OnnxDims> parameter_dims_;
  const GraphNode* node_ = nullptr;  ///< that is translated
};

}  // namespace

OnnxGraph onnx_of(const Graph& graph, const DataDescription& data) { return OnnxTranslation(graph, data).translate(); }

}  // namespace trainer
