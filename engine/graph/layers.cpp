#include <fmt/format.h>

#include <cmath>
#include <span>
#include <utility>

#include "engine/config/diagnostic.h"
#include "engine/graph/graph_builder.h"
#include "engine/ops/batchnorm2d_over_ranks.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

Parameter random_parameter(TensorType type, Parameter::Start start, std::int64_t fan_in, std::int64_t fan_out,
                           Initialization init) {
  Parameter parameter;
  parameter.type = type;
  parameter.start = start;
  parameter.decays = start != Parameter::Start::random_bias;
  parameter.init = init;
  parameter.fan_in = fan_in;
  parameter.fan_out = fan_out;
  return parameter;
}

Parameter constant_parameter(TensorType type, Parameter::Start start, bool trainable) {
  Parameter parameter;
  parameter.type = type;
  parameter.start = start;
  parameter.decays = false;
  parameter.trainable = trainable;
  return parameter;
}

/// Adds the weight and, where the op takes one, the bias of linear or a convolution, and applies the op.
ValueId apply_weighted(GraphBuilder& builder, Op op, ValueId x, std::int64_t fan_in, std::int64_t fan_out,
                       Initialization init, FileOrder file_order, std::int64_t groups = 1, double scale = 1) {
  using Start = Parameter::Start;
  std::vector<ValueId> inputs = {x};
  Parameter weight = random_parameter(op.inputs[1], Start::random_weight, fan_in, fan_out, init);
  weight.file_order = file_order;
  weight.groups = groups;
  weight.scale = scale;
  inputs.push_back(builder.add_parameter("weight", std::move(weight)));
  if (op.inputs.size() > 2)
    inputs.push_back(
        builder.add_parameter("bias", random_parameter(op.inputs[2], Start::random_bias, fan_in, fan_out, init)));
  return builder.apply(std::move(op), std::move(inputs))[0];
}

/// Adds the weight of an embedding and applies the op to x, the weight and `more`.
ValueId apply_rows(GraphBuilder& builder, Op op, ValueId x, std::optional<Initialization> init,
                   const std::vector<ValueId>& more = {}) {
  const TensorType& rows = op.inputs[1];
  checked_bytes(rows);
  Parameter weight = random_parameter(rows, Parameter::Start::random_rows, rows.shape[1], rows.shape[0],
                                      init.value_or(builder.default_init()));
  std::vector<ValueId> inputs = {x, builder.add_parameter("weight", std::move(weight))};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return builder.apply(std::move(op), std::move(inputs))[0];
}

void add_scale(GraphBuilder& builder, const TensorType& type, std::vector<ValueId>& inputs) {
  inputs.push_back(builder.add_parameter("weight", constant_parameter(type, Parameter::Start::ones, true)));
}

void add_scale_and_shift(GraphBuilder& builder, const TensorType& type, std::vector<ValueId>& inputs) {
  add_scale(builder, type, inputs);
  inputs.push_back(builder.add_parameter("bias", constant_parameter(type, Parameter::Start::zeros, true)));
}

/// Mean and rstd of the batch of all ranks, of which x is this one's part; `operands`: x, running mean and variance.
std::vector<ValueId> statistics_over_ranks(GraphBuilder& builder, const BatchNorm2dAttributes& attributes,
                                           std::span<const ValueId> operands) {
  const Op op = batchnorm2d_sums_op(builder.type(operands[0]));
  const ValueId sums = builder.apply(op, {operands[0]}, {}, "sums")[0];
  builder.apply(all_reduce_op(op.outputs, attributes.ranks), {sums});
  return builder.apply(batchnorm2d_statistics_op(op.outputs[0], attributes), {sums, operands[1], operands[2]}, {"rstd"},
                       "mean");
}

/// One overload a kind of leaf layer: the values of its inputs, as many as its LayerKind says → its output. Throws
/// ShapeError, and where inputs do not fit each other a ConfigError that points at `from`.
struct LeafTranslation {
  GraphBuilder& builder;
  const LayerSpec& layer;
  const std::string& path;
  const std::vector<ValueId>& inputs;
  ValueId x = inputs.front();

  ValueId operator()(const LinearSpec& spec) const {
    Op op = linear_op(builder.type(x), {.out = spec.out, .bias = spec.bias});
    const std::int64_t in = op.inputs[1].shape[1];
    const double scale = 1 / std::sqrt(static_cast<double>(spec.residual_layers.value_or(1)));
    return apply_weighted(builder, std::move(op), x, in, spec.out, spec.init.value_or(builder.default_init()),
                          FileOrder::same, 1, scale);
  }
  ValueId operator()(const EmbeddingSpec& spec) const {
    if (const std::int64_t num = builder.num_indices(x); num > spec.num)
      throw ShapeError(fmt::format("embedding has {} rows, and the data's vocabulary {}", spec.num, num));
    return apply_rows(builder, embedding_op(builder.type(x), spec.num, spec.dim), x, spec.init);
  }
  ValueId operator()(const PositionEmbeddingSpec& spec) const {
    const Op op = position_embedding_op(builder.type(x), spec.length);
    const std::optional<DocumentValues> documents = builder.documents();
    if (!documents) return apply_rows(builder, op, x, spec.init);
    const Op at_places = position_embedding_at_op(op);
    if (at_places.inputs[2] != builder.type(documents->places))
      throw ShapeError(
          fmt::format("positions within documents need a row for each token of the data {}; the input is {}",
                      builder.type(documents->places).shape.to_string(), builder.type(x).shape.to_string()));
    return apply_rows(builder, at_places, x, spec.init, {documents->places});
  }
  ValueId operator()(const TokenTypeEmbeddingSpec& spec) const {
    const TensorType type = tokens("token_type_embedding");
    // Each token is a sequence, and its type the first place of it.
    const ValueId rows = builder.add_view(x, {type.shape[0] * type.shape[1], 1, type.shape[2]});
    const ValueId typed = apply_rows(builder, position_embedding_op(builder.type(rows), spec.num), rows, spec.init);
    return builder.add_view(typed, type.shape);
  }
  ValueId operator()(const Conv2dSpec& spec) const {
    Op op = conv2d_op(builder.type(x), {.out = spec.out,
                                        .kernel = spec.kernel,
                                        .stride = spec.stride,
                                        .padding = spec.padding,
                                        .dilation = spec.dilation,
                                        .groups = spec.groups,
                                        .bias = spec.bias,
                                        .workspace_limit = builder.workspace_limit()});
    const Shape& weight = op.inputs[1].shape;
    checked_bytes(op.inputs[1]);
    const std::int64_t window = weight[1] * weight[2];
    const std::int64_t fan_in = weight[3] * window;
    return apply_weighted(builder, std::move(op), x, fan_in, weight[0] * window,
                          spec.init.value_or(builder.default_init()), FileOrder::channels_second, spec.groups);
  }
  ValueId operator()(const ConvTranspose2dSpec& spec) const {
    Op op = conv_transpose2d_op(builder.type(x), {.out = spec.out,
                                                  .kernel = spec.kernel,
                                                  .stride = spec.stride,
                                                  .padding = spec.padding,
                                                  .output_padding = spec.output_padding,
                                                  .dilation = spec.dilation,
                                                  .groups = spec.groups,
                                                  .bias = spec.bias,
                                                  .workspace_limit = builder.workspace_limit()});
    const Shape& weight = op.inputs[1].shape;
    checked_bytes(op.inputs[1]);
    // PyTorch counts both by the weight's own axes, the other way round than a convolution of these channels.
    const std::int64_t window = weight[1] * weight[2];
    const std::int64_t fan_in = weight[3] * window;
    return apply_weighted(builder, std::move(op), x, fan_in, weight[0] * window,
                          spec.init.value_or(builder.default_init()), FileOrder::channels_second, spec.groups);
  }
  ValueId operator()(const BatchNormSpec& spec) const {
    const bool is_of_ranks = builder.normalises_by_batch() && builder.shares_norms();
    const BatchNorm2dAttributes attributes{.eps = spec.eps,
                                           .momentum = spec.momentum,
                                           .affine = spec.affine,
                                           .ranks = is_of_ranks ? builder.ranks() : RankGroup{}};
    const TensorType& type = builder.type(x);
    if (spec.of_images) {
      if (type.shape.rank() == 2)
        throw ShapeError(
            fmt::format("batchnorm2d takes images of shape (batch, height, width, channels); its input is "
                        "{}. batchnorm1d is for features",
                        type.shape.to_string()));
      require_image(type, "batchnorm2d");
    } else if (type.shape.rank() != 2 && type.shape.rank() != 3) {
      throw ShapeError(fmt::format("batchnorm1d takes (batch, features) or (batch, rows, features); its input is {}{}",
                                   type.shape.to_string(),
                                   type.shape.rank() == 4 ? ". batchnorm2d is for images" : ""));
    }
    if (builder.normalises_by_batch() && !is_of_ranks && type.shape.num_elements() == type.shape[-1]) {
      throw ShapeError(
          fmt::format("batch normalization of {} in training: one value a channel has no variance, and all of them "
                      "would become 0. A batch must hold more than one sample here, also an odd last one "
                      "(data.drop_last: true leaves it out){}",
                      type.shape.to_string(),
                      builder.ranks().count > 1 ? ". parallel.sync_batchnorm: true takes those of all ranks" : ""));
    }
    Op op =
        builder.normalises_by_batch() ? batchnorm2d_op(type, attributes) : batchnorm2d_inference_op(type, attributes);
    const TensorType channels = op.inputs[1];
    std::vector<ValueId> statistics = {
        builder.add_parameter("running_mean", constant_parameter(channels, Parameter::Start::zeros, false)),
        builder.add_parameter("running_var", constant_parameter(channels, Parameter::Start::ones, false))};
    std::vector<ValueId> operands = {x, statistics[0], statistics[1]};
    if (spec.affine) add_scale_and_shift(builder, channels, operands);
    if (is_of_ranks) {
      const std::vector<ValueId> found = statistics_over_ranks(builder, attributes, operands);
      operands[1] = found[0];
      operands[2] = found[1];
      return builder.apply(batchnorm2d_normalize_op(op), std::move(operands))[0];
    }
    return builder.apply(std::move(op), std::move(operands), {"mean", "rstd"})[0];
  }
  ValueId operator()(const LayerNormSpec& spec) const {
    const ValueId rows = heads_as_rows("layernorm", spec.heads);
    Op op = layernorm_op(builder.type(rows), {.eps = spec.eps, .affine = spec.affine});
    std::vector<ValueId> operands = {rows};
    if (spec.affine) add_scale_and_shift(builder, op.inputs[1], operands);
    return shaped_as_input(builder.apply(std::move(op), std::move(operands), {"mean", "rstd"})[0]);
  }
  ValueId operator()(const RmsNormSpec& spec) const {
    const ValueId rows = heads_as_rows("rmsnorm", spec.heads);
    Op op = layernorm_op(builder.type(rows), {.eps = spec.eps, .affine = spec.affine, .centres = false});
    std::vector<ValueId> operands = {rows};
    if (spec.affine) add_scale(builder, op.inputs[1], operands);
    return shaped_as_input(builder.apply(std::move(op), std::move(operands), {"rstd"})[0]);
  }
  ValueId operator()(const GroupNormSpec& spec) const {
    const TensorType& type = builder.type(x);
    if (spec.by_channel) require_image(type, "instancenorm2d");
    const std::int64_t groups = spec.by_channel ? type.shape[-1] : spec.groups;
    Op op = groupnorm_op(type, {.groups = groups, .eps = spec.eps, .affine = spec.affine});
    if (builder.training() && op.outputs[1].num_elements() == type.num_elements())
      throw ShapeError(
          fmt::format("normalization of {} in {} in training: one value a group has no variance, and all "
                      "of them would become 0",
                      type.shape.to_string(), spec.by_channel ? "channels" : fmt::format("{} groups", groups)));
    std::vector<ValueId> operands = {x};
    if (spec.affine) add_scale_and_shift(builder, op.inputs[1], operands);
    return builder.apply(std::move(op), std::move(operands), {"mean", "rstd"})[0];
  }
  ValueId operator()(const AttentionSpec& spec) const {
    const std::uint32_t stream = spec.dropout > 0 ? builder.next_random_stream() : 0;
    const bool drops = builder.training() && spec.dropout > 0;
    const AttentionAttributes attributes{.heads = spec.heads,
                                         .kv_heads = spec.kv_heads.value_or(spec.heads),
                                         .causal = spec.causal,
                                         .window = spec.window.value_or(0),
                                         .rotary_base = spec.rotary_base.value_or(0),
                                         .rotary_stretch = spec.rotary_stretch(),
                                         .p = drops ? spec.dropout : 0,
                                         .stream = drops ? stream : 0,
                                         .workspace_limit = builder.workspace_limit()};
    Op op = inputs.size() == 1
                ? attention_op(builder.type(x), attributes)
                : attention_op(builder.type(x), builder.type(inputs[1]), builder.type(inputs[2]), attributes);
    std::vector<ValueId> operands = inputs;
    if (const std::optional<DocumentValues> documents = builder.documents()) {
      op = attention_within_spans_op(op, builder.type(documents->spans));
      operands.push_back(documents->spans);
    }
    return builder.apply(std::move(op), std::move(operands), {"lse"})[0];
  }
  ValueId operator()(const ActivationSpec& spec) const {
    return builder.apply(
        activation_op(builder.type(x),
                      {.function = spec.function, .approximate = spec.approximate, .slope = spec.slope}),
        {x})[0];
  }
  ValueId operator()(const GluSpec& spec) const {
    const GluAttributes attributes{.function = spec.function, .approximate = spec.approximate};
    if (inputs.size() == 1) return builder.apply(packed_glu_op(builder.type(x), attributes), {x})[0];
    if (builder.type(inputs[1]) != builder.type(x)) throw unlike_inputs("gate", 1, "outputs of one shape");
    return builder.apply(glu_op(builder.type(x), builder.type(inputs[1]), attributes), inputs)[0];
  }
  ValueId operator()(const PreluSpec& spec) const {
    Op op = prelu_op(builder.type(x), spec.num);
    Parameter weight = constant_parameter(op.inputs[1], Parameter::Start::constant, true);
    weight.constant = spec.init;
    return builder.apply(std::move(op), {x, builder.add_parameter("weight", std::move(weight))})[0];
  }
  ValueId operator()(const MaxPool2dSpec& spec) const {
    const Pool2dAttributes attributes{.kernel = spec.kernel,
                                      .stride = spec.stride,
                                      .padding = spec.padding,
                                      .ceil_mode = spec.ceil_mode,
                                      .keep_indices = builder.differentiates()};
    return builder.apply(maxpool2d_op(builder.type(x), attributes), {x}, {"indices"})[0];
  }
  ValueId operator()(const AvgPool2dSpec& spec) const {
    const Pool2dAttributes attributes{.kernel = spec.kernel,
                                      .stride = spec.stride,
                                      .padding = spec.padding,
                                      .ceil_mode = spec.ceil_mode,
                                      .count_include_pad = spec.count_include_pad};
    return builder.apply(avgpool2d_op(builder.type(x), attributes), {x})[0];
  }
  ValueId operator()(const AdaptiveAvgPool2dSpec& spec) const {
    return builder.apply(adaptive_avgpool2d_op(builder.type(x), spec.size), {x})[0];
  }
  ValueId operator()(const UpsampleSpec& spec) const {
    const UpsampleAttributes attributes{
        .mode = spec.mode, .align_corners = spec.align_corners, .scale = spec.scale.value_or(Pair{0, 0})};
    return builder.apply(upsample_op(builder.type(x), attributes, spec.size.value_or(Pair{0, 0})), {x})[0];
  }
  ValueId operator()(const PadSpec& spec) const {
    return builder.apply(pad_op(builder.type(x), {.size = spec.size, .mode = spec.mode, .value = spec.value}), {x})[0];
  }
  ValueId operator()(const PatchEmbeddingSpec& spec) const {
    const TensorType& type = builder.type(x);
    require_image(type, "patch_embedding");
    if (type.shape[1] % spec.size[0] != 0 || type.shape[2] % spec.size[1] != 0)
      throw ShapeError(
          fmt::format("patch_embedding cuts images into patches of {}×{}, which do not divide its input {}",
                      spec.size[0], spec.size[1], type.shape.to_string()));
    const Conv2dSpec patches{
        .out = spec.dim, .kernel = spec.size, .stride = spec.size, .bias = spec.bias, .init = spec.init};
    const ValueId image = (*this)(patches);
    const Shape& shape = builder.type(image).shape;
    return builder.add_view(image, {shape[0], shape[1] * shape[2], shape[3]});
  }
  ValueId operator()(const ClassTokenSpec&) const {
    const TensorType type = tokens("class_token");
    const std::int64_t samples = type.shape[0], tokens = type.shape[1], dim = type.shape[2];
    const ValueId token =
        builder.add_parameter("weight", constant_parameter({type.dtype, {dim}}, Parameter::Start::zeros, true));
    const ValueId row = builder.apply(repeat_row_op({type.dtype, {dim}}, samples), {token}, {}, "tokens")[0];
    // As channels of samples: the token's, then those of all others.
    const std::vector<TensorType> parts = {{type.dtype, {samples, dim}}, {type.dtype, {samples, tokens * dim}}};
    const ValueId whole = builder.apply(concat_op(parts), {row, builder.add_view(x, parts[1].shape)}, {}, "joined")[0];
    return builder.add_view(whole, {samples, tokens + 1, dim});
  }
  ValueId operator()(const SelectTokenSpec& spec) const {
    const TensorType type = tokens("select_token");
    const std::int64_t samples = type.shape[0], tokens = type.shape[1], dim = type.shape[2];
    const std::int64_t index = spec.index < 0 ? tokens + spec.index : spec.index;
    if (index < 0 || index >= tokens)
      throw ShapeError(
          fmt::format("there is no token {} of {}: its input is {}", spec.index, tokens, type.shape.to_string()));
    const TensorType row{type.dtype, {samples, tokens * dim}};
    return builder.apply(channel_slice_op(row, dim, {.first = index * dim}), {builder.add_view(x, row.shape)})[0];
  }
  ValueId operator()(const SliceSpec& spec) const {
    const TensorType& type = builder.type(x);
    if (spec.first + spec.size > type.shape[-1])
      throw ShapeError(fmt::format("slice takes the channels from {} to below {}, and its input is {}: {} channels",
                                   spec.first, spec.first + spec.size, type.shape.to_string(), type.shape[-1]));
    return builder.apply(channel_slice_op(type, spec.size, {.first = spec.first}), {x})[0];
  }
  ValueId operator()(const GlobalAvgPoolSpec&) const {
    // The mean of tokens (T, C) is that of an image (T, 1, C).
    const Shape shape = builder.type(x).shape;
    const ValueId image = shape.rank() == 3 ? builder.add_view(x, {shape[0], shape[1], 1, shape[2]}) : x;
    return builder.apply(global_avgpool_op(builder.type(image)), {image})[0];
  }
  ValueId operator()(const FlattenSpec&) const {
    const Shape& shape = builder.type(x).shape;
    if (flatten_is_view(shape)) return builder.add_view(x, {shape[0], shape.num_elements() / shape[0]});
    return builder.apply(flatten_op(builder.type(x)), {x})[0];
  }
  ValueId operator()(const DropoutSpec& spec) const {
    const std::uint32_t stream = builder.next_random_stream();
    if (!builder.training() || spec.p == 0) return x;
    return builder.apply(dropout_op(builder.type(x), {.p = spec.p, .stream = stream}), {x})[0];
  }

  ValueId operator()(const AddSpec&) const {
    for (std::size_t i = 1; i < inputs.size(); ++i)
      if (builder.type(inputs[i]) != builder.type(x)) throw unlike_inputs("add", i, "outputs of one shape");
    return fold("sum", [&](ValueId sum, ValueId term) {
      return std::pair{add_op(builder.type(sum)), std::vector{sum, term}};
    });
  }

  ValueId operator()(const MultiplySpec&) const {
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const TensorType &type = builder.type(x), &factor = builder.type(inputs[i]);
      if (factor != type && !is_gate(type, factor))
        throw unlike_inputs("multiply", i, "outputs of one shape, or behind images (batch, channels) to gate them");
    }
    return fold("product", [&](ValueId product, ValueId factor) {
      return std::pair{multiply_op(builder.type(product), builder.type(factor)), std::vector{product, factor}};
    });
  }
  ValueId operator()(const ConcatSpec&) const {
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      types.push_back(builder.type(inputs[i]));
      TensorType others = types[i];
      if (others.shape.rank() == types[0].shape.rank()) others.shape[-1] = types[0].shape[-1];
      if (others != types[0]) throw unlike_inputs("concatenate", i, "outputs that are alike but for their channels");
    }
    return builder.apply(concat_op(types), inputs)[0];
  }

  // Composites are expanded by build_layer.
  ValueId operator()(const ResidualSpec&) const { return x; }
  ValueId operator()(const SequentialSpec&) const { return x; }
  ValueId operator()(const RepeatSpec&) const { return x; }

 private:
  /// The type of the input, which must be tokens (N, T, C).
  TensorType tokens(std::string_view kind) const {
    const TensorType& type = builder.type(x);
    if (type.shape.rank() != 3)
      throw ShapeError(
          fmt::format("{} takes tokens (batch, tokens, channels); its input is {}", kind, type.shape.to_string()));
    return type;
  }

  /// The input with a row for each head, whose features lie side by side: a view, or itself where there is one head.
  ValueId heads_as_rows(std::string_view kind, std::optional<std::int64_t> heads) const {
    if (heads.value_or(1) == 1) return x;
    Shape shape = builder.type(x).shape;
    if (shape[-1] % *heads != 0)
      throw ShapeError(
          fmt::format("{} of {} heads: the features of its input {} are no multiple", kind, *heads, shape.to_string()));
    const std::int64_t width = shape[-1] / *heads;
    if (shape.rank() == 2) return builder.add_view(x, {shape[0], *heads, width});
    shape[-2] *= *heads;
    shape[-1] = width;
    return builder.add_view(x, shape);
  }
  /// `y`, or a view of it, in the input's shape.
  ValueId shaped_as_input(ValueId y) const {
    const Shape& shape = builder.type(x).shape;
    return builder.type(y).shape == shape ? y : builder.add_view(y, shape);
  }

  /// `verb` does not go with the first input and that at `position`.
  ConfigError unlike_inputs(std::string_view verb, std::size_t position, const std::string& expected) const {
    return located_error(
        layer.from_location,
        fmt::format("layer '{}' cannot {} {} of '{}' and {} of '{}'", path, verb, builder.type(x).shape.to_string(),
                    layer.from[0], builder.type(inputs[position]).shape.to_string(), layer.from[position]),
        expected);
  }

  /// Takes one input after another into a result of two of them: `combine` tells the op and its operands. What comes
  /// before the last is called `partial`.1 and so on.
  template <typename Combine>
  ValueId fold(std::string_view partial, const Combine& combine) const {
    ValueId result = x;
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const bool is_last = i + 1 == inputs.size();
      auto [op, operands] = combine(result, inputs[i]);
      const std::string role = is_last ? "output" : fmt::format("{}.{}", partial, i);
      result = builder.apply(std::move(op), std::move(operands), {}, role)[0];
    }
    return result;
  }
};

ValueId build_residual(GraphBuilder& builder, const LayerSpec& layer, const ResidualSpec& spec, const std::string& path,
                       ValueId input) {
  const ValueId branch = build_layers(builder, spec.layers, path + ".layers", input);
  if (builder.is_complete()) return branch;
  const ValueId shortcut = build_layers(builder, spec.shortcut, path + ".shortcut", input);
  if (builder.is_complete()) return shortcut;
  const TensorType& branch_type = builder.type(branch);
  const TensorType& shortcut_type = builder.type(shortcut);
  if (branch_type != shortcut_type) {
    throw located_error(
        layer.location,
        fmt::format("residual '{}' cannot add its layers' output {} and its {} {}", path, branch_type.shape.to_string(),
                    spec.shortcut.empty() ? "input" : "shortcut's output", shortcut_type.shape.to_string()),
        spec.shortcut.empty() ? "layers that keep the shape, or a shortcut that changes it alike"
                              : "both of one shape");
  }
  builder.begin_layer(path, layer.kind, layer.location, input);
  const ValueId output = builder.apply(add_op(branch_type), {branch, shortcut})[0];
  builder.end_layer(output);
  return output;
}

ValueId build_layer(GraphBuilder& builder, const LayerSpec& layer, const std::string& path,
                    const std::vector<ValueId>& inputs) {
  const ValueId input = inputs.front();
  if (const auto* residual = std::get_if<ResidualSpec>(&layer.spec))
    return build_residual(builder, layer, *residual, path, input);
  if (const auto* sequential = std::get_if<SequentialSpec>(&layer.spec))
    return build_layers(builder, sequential->layers, path, input);
  if (const auto* repeat = std::get_if<RepeatSpec>(&layer.spec)) {
    ValueId value = input;
    for (std::int64_t i = 0; i < repeat->times && !builder.is_complete(); ++i)
      value = build_layers(builder, repeat->layers, fmt::format("{}.{}", path, i), value);
    return value;
  }
  builder.begin_layer(path, layer.kind, layer.location, input);
  ValueId output = -1;
  try {
    const bool takes_indices = std::holds_alternative<EmbeddingSpec>(layer.spec);
    for (const ValueId each : inputs)
      if (const TensorType& type = builder.type(each); (type.dtype == DType::i32) != takes_indices)
        throw ShapeError(fmt::format("{} takes {}; its input are the {} {}", layer.kind,
                                     takes_indices ? "indices, such as tokens" : "numbers",
                                     takes_indices ? "numbers" : "indices", type.to_string()));
    output = std::visit(LeafTranslation{builder, layer, path, inputs}, layer.spec);
  } catch (const ShapeError& error) {
    throw located_error(layer.location, fmt::format("layer '{}': {}", path, error.what()));
  }
  builder.end_layer(output);
  return output;
}

}  // namespace

std::string path_of_layer(const LayerSpec& layer, std::size_t position, const std::string& prefix) {
  return (prefix.empty() ? "" : prefix + ".") + (layer.name.empty() ? std::to_string(position) : layer.name);
}

ValueId build_layers(GraphBuilder& builder, const std::vector<LayerSpec>& layers, const std::string& prefix,
                     ValueId input) {
  builder.add_input(prefix.empty() ? "in" : prefix + ".in", input);
  ValueId value = input;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string path = path_of_layer(layers[i], i, prefix);
    std::vector<ValueId> inputs;
    for (const std::string& name : layers[i].from)
      inputs.push_back(builder.find_output(prefix, name, layers[i].from_location));
    if (inputs.empty()) inputs.push_back(value);
    const bool shares = !layers[i].share.empty();
    if (shares)
      builder.begin_sharing(path, builder.find_path(prefix, layers[i].share, layers[i].share_location),
                            layers[i].share_location);
    value = build_layer(builder, layers[i], path, inputs);
    if (builder.is_complete()) break;  // inside this one
    if (shares) builder.end_sharing();
    builder.add_output(path, layers[i].location, value);
    if (builder.is_complete()) break;
  }
  return value;
}

}  // namespace trainer
