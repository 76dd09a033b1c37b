#include "tests/op_cases/larger_cases.h"

#include <array>
#include <cmath>
#include <utility>

namespace trainer {

namespace {

/// The op with the inputs that are given, the others drawn: f32 from −1 to 1, bytes from all of them.
OpCase drawn(Op op, std::map<int, Values> given = {}) {
  OpCase c{std::string(name_of(op.kind)), std::move(op), {}, {}};
  for (const TensorType& type : c.op.inputs) {
    const auto position = static_cast<int>(c.inputs.size());
    c.name += " " + type.to_string();
    if (const auto values = given.find(position); values != given.end()) {
      c.inputs.push_back(values->second);
      continue;
    }
    c.inputs.push_back(random_values(type, position + 1, -1, 1));
    if (type.dtype != DType::u8) continue;
    for (double& byte : c.inputs.back()) byte = std::floor((byte + 1) * 128);
  }
  c.scalars = {.seed = 99, .pass = 3, .gradient_scale = 0.125F, .learning_rate = 0.05, .update = 5};
  // Sums of some thousand numbers around 1, in f32 on both sides.
  c.tolerance = 1e-4;
  return c;
}

Values integers(std::int64_t count, std::int64_t end) {
  Values values = random_values(count, 5, 0, static_cast<double>(end));
  for (double& value : values) value = std::floor(value);
  return values;
}

void append_elementwise(std::vector<OpCase>& cases) {
  for (const std::int64_t count : {1, 7, 256, 257, 1021, 1025, 4099}) {
    const TensorType type{DType::f32, {count}};
    for (const Activation function :
         {Activation::relu, Activation::gelu, Activation::silu, Activation::tanh, Activation::sigmoid,
          Activation::leaky_relu, Activation::relu6, Activation::hardswish, Activation::hardsigmoid}) {
      const ActivationAttributes attributes{function, GeluApproximation::none,
                                            function == Activation::leaky_relu ? 0.25 : 0.0};
      cases.push_back(drawn(activation_op(type, attributes), {{0, random_values(count, 1, -9, 9)}}));
      cases.push_back(drawn(activation_backward_op(type, attributes)));
    }
    const ActivationAttributes gelu_tanh{Activation::gelu, GeluApproximation::tanh};
    cases.push_back(drawn(activation_op(type, gelu_tanh), {{0, random_values(count, 1, -9, 9)}}));
    cases.push_back(drawn(activation_backward_op(type, gelu_tanh)));
    for (const bool relu : {false, true}) cases.push_back(drawn(add_op(type, {.relu = relu})));
    cases.push_back(drawn(multiply_op(type, type)));
    for (const Op& glu :
         {glu_op(type, type, {Activation::silu}), packed_glu_op({DType::f32, {3, 2 * count}}, {Activation::gelu})}) {
      cases.push_back(drawn(glu));
      cases.push_back(drawn(glu_backward_op(glu)));
    }
    const Op dropout = dropout_op(type, {.p = 0.3, .stream = 4});
    cases.push_back(drawn(dropout));
    cases.push_back(drawn(dropout_backward_op(dropout)));
    for (const bool finish : {false, true}) {
      cases.push_back(drawn(offload_op(type, {.slot = 0, .finish = finish})));
      cases.push_back(drawn(fetch_op(type, {.slot = 1, .finish = finish})));
    }
  }
}

/// Of 1000 rows of means below 1 and variances of some 3.
Values sums_of_ranks(std::int64_t channels) {
  Values sums = random_values(2 * channels + 1, 9, -1000, 1000);
  for (std::int64_t c = 0; c < channels; ++c) sums[static_cast<std::size_t>(channels + c)] = 4000;
  sums.back() = 1000;
  return sums;
}

void append_batchnorms(std::vector<OpCase>& cases, const TensorType& x) {
  const std::int64_t channels = x.shape[3];
  const Values positive = random_values(channels, 8, 0.5, 2);
  cases.push_back(drawn(batchnorm2d_inference_backward_op(batchnorm2d_inference_op(x, {})), {{1, positive}}));
  for (const auto& [relu, adds] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    const BatchNorm2dAttributes attributes{.relu = relu, .adds = adds};
    const Op forward = batchnorm2d_op(x, attributes);
    if (x.num_elements() > channels) cases.push_back(drawn(forward, {{2, positive}}));
    cases.push_back(drawn(batchnorm2d_normalize_op(forward), {{2, positive}}));
    cases.push_back(drawn(batchnorm2d_inference_op(x, attributes), {{2, positive}}));
    cases.push_back(drawn(batchnorm2d_backward_op(forward), {{3, positive}}));
    if (adds) continue;
    const Op normalize = batchnorm2d_normalize_op(forward);
    cases.push_back(drawn(batchnorm2d_gradient_sums_op(normalize), {{3, positive}}));
    cases.push_back(drawn(batchnorm2d_normalize_backward_op(normalize), {{3, positive}, {4, sums_of_ranks(channels)}}));
  }
  cases.push_back(drawn(batchnorm2d_sums_op(x)));
  cases.push_back(drawn(batchnorm2d_statistics_op(batchnorm2d_sums_type(channels), {.ranks = {2}}),
                        {{0, sums_of_ranks(channels)}, {2, positive}}));
}

void append_groupnorms(std::vector<OpCase>& cases, const TensorType& x) {
  const std::int64_t channels = x.shape[-1];
  for (const std::int64_t groups : {std::int64_t{1}, channels % 4 == 0 ? std::int64_t{4} : channels}) {
    if (groups * x.shape[0] == x.num_elements()) continue;
    for (const bool relu : {false, true}) {
      const Op forward = groupnorm_op(x, {.groups = groups, .relu = relu});
      const Values positive = random_values(x.shape[0] * groups, 8, 0.5, 2);
      cases.push_back(drawn(forward));
      cases.push_back(drawn(groupnorm_normalize_op(forward), {{2, positive}}));
      cases.push_back(drawn(groupnorm_backward_op(forward), {{3, positive}}));
    }
  }
}

void append_pools(std::vector<OpCase>& cases, const TensorType& x) {
  if (x.shape[1] < 3 || x.shape[2] < 3) return;
  const Pool2dAttributes halves;
  const Pool2dAttributes overlapping{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  for (const Pool2dAttributes& attributes : {halves, overlapping}) {
    const Op max = maxpool2d_op(x, attributes);
    const std::int64_t num_indices = max.outputs[1].num_elements();
    cases.push_back(drawn(max));
    // Where there is padding, the window's centre, which lies within the image.
    cases.push_back(drawn(maxpool2d_backward_op(max),
                          {{1, attributes.padding[0] == 0 ? integers(num_indices, 4)
                                                          : Values(static_cast<std::size_t>(num_indices), 4)}}));
    const Op average = avgpool2d_op(x, attributes);
    cases.push_back(drawn(average));
    cases.push_back(drawn(avgpool2d_backward_op(average)));
  }
}

/// What makes images of other sizes of them.
void append_resized(std::vector<OpCase>& cases, const TensorType& x) {
  const Op adaptive = adaptive_avgpool2d_op(x, {3, 5});
  cases.push_back(drawn(adaptive));
  cases.push_back(drawn(adaptive_avgpool2d_backward_op(adaptive)));
  for (const auto mode : {Interpolation::nearest, Interpolation::bilinear})
    for (const Op& upsample :
         {upsample_op(x, {.mode = mode, .scale = {2, 3}}, {}), upsample_op(x, {.mode = mode}, {7, 4})}) {
      cases.push_back(drawn(upsample));
      cases.push_back(drawn(upsample_backward_op(upsample)));
    }
  for (const auto mode : {PadMode::zeros, PadMode::reflect, PadMode::replicate}) {
    if (mode == PadMode::reflect && (x.shape[1] < 4 || x.shape[2] < 4)) continue;
    const Op pad = pad_op(x, {.size = {0, 3, 2, 1}, .mode = mode});
    cases.push_back(drawn(pad));
    cases.push_back(drawn(pad_backward_op(pad)));
  }
}

void append_convolutions(std::vector<OpCase>& cases, const TensorType& x) {
  const std::int64_t groups = x.shape[3] % 4 == 0 ? 4 : 1;
  for (const bool relu : {false, true}) {
    const Op forward = conv2d_op(
        x, {.out = 12, .kernel = {3, 3}, .stride = {2, 1}, .padding = {1, 1}, .groups = groups, .relu = relu});
    cases.push_back(drawn(forward));
    if (relu) continue;
    cases.push_back(drawn(conv2d_backward_input_op(forward)));
    cases.push_back(drawn(conv2d_backward_weight_op(forward)));
  }
}

void append_channels(std::vector<OpCase>& cases, const TensorType& x) {
  const std::int64_t channels = x.shape[3];
  const Op gated = multiply_op(x, {x.dtype, {x.shape[0], channels}});
  cases.push_back(drawn(gated));
  cases.push_back(drawn(multiply_backward_gate_op(gated)));
  TensorType more = x;
  more.shape[3] = 12;
  const Op concat = concat_op(std::vector{x, more, x});
  cases.push_back(drawn(concat));
  const Op slice = channel_slice_op(concat.outputs[0], 12, {.first = channels});
  cases.push_back(drawn(slice));
  cases.push_back(drawn(channel_slice_backward_op(slice)));
  const Op repeat = repeat_row_op({x.dtype, {x.shape[2] * channels}}, 37);
  cases.push_back(drawn(repeat));
  cases.push_back(drawn(sum_rows_op(repeat)));
  for (const std::int64_t first : {std::int64_t{0}, channels + 5})
    cases.push_back(drawn(place_channels_op(x, concat.outputs[0], first, true)));
  for (const std::int64_t num : {std::int64_t{1}, channels}) {
    const Op prelu = prelu_op(x, num);
    cases.push_back(drawn(prelu));
    cases.push_back(drawn(prelu_backward_op(prelu)));
  }
}

void append_depthwise(std::vector<OpCase>& cases, const TensorType& x) {
  const std::int64_t channels = x.shape[3];
  if (channels == 1) return;
  for (const auto& [kernel, stride] : {std::pair<std::int64_t, std::int64_t>{3, 1}, {3, 2}, {5, 1}}) {
    const Op op = conv2d_op(x, {.out = channels,
                                .kernel = {kernel, kernel},
                                .stride = {stride, stride},
                                .padding = {kernel / 2, kernel / 2},
                                .groups = channels});
    cases.push_back(drawn(op));
    cases.push_back(drawn(conv2d_backward_input_op(op)));
    cases.push_back(drawn(conv2d_backward_weight_op(op)));
  }
}

void append_transposed(std::vector<OpCase>& cases, const TensorType& x) {
  const std::int64_t groups = x.shape[3] % 4 == 0 ? 4 : 1;
  for (const bool bias : {true, false}) {
    const Op op = conv_transpose2d_op(
        x, {.out = 12, .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .groups = groups, .bias = bias});
    cases.push_back(drawn(op));
    cases.push_back(drawn(conv_transpose2d_backward_weight_op(op)));
    if (bias) cases.push_back(drawn(conv_transpose2d_backward_input_op(op)));
  }
}

void append_images(std::vector<OpCase>& cases) {
  for (const Shape& shape :
       {Shape{1, 1, 1, 1}, Shape{2, 13, 11, 3}, Shape{3, 7, 5, 8}, Shape{2, 17, 19, 37}, Shape{1, 5, 4, 257}}) {
    const TensorType x{DType::f32, shape};
    const auto channels = static_cast<std::size_t>(shape[3]);
    cases.push_back(drawn(normalize_pixels_op(
        {DType::u8, shape}, {std::vector<float>(channels, 0.01F), std::vector<float>(channels, -0.5F)})));
    append_batchnorms(cases, x);
    append_groupnorms(cases, x);
    append_pools(cases, x);
    append_convolutions(cases, x);
    append_channels(cases, x);
    append_depthwise(cases, x);
    append_transposed(cases, x);
    append_resized(cases, x);
    cases.push_back(drawn(global_avgpool_op(x)));
    cases.push_back(drawn(global_avgpool_backward_op(global_avgpool_op(x))));
    cases.push_back(drawn(flatten_op(x)));
    cases.push_back(drawn(flatten_backward_op(flatten_op(x))));
  }
}

void append_losses(std::vector<OpCase>& cases, const TensorType& x) {
  const std::int64_t rows = x.shape[0], classes = x.shape[1];
  for (const double label_smoothing : {0.0, 0.1}) {
    const Op loss =
        cross_entropy_op(x, {DType::i32, {rows}}, {.label_smoothing = label_smoothing, .class_weights = {}});
    const std::map<int, Values> targets = {{1, integers(rows, classes)}};
    cases.push_back(drawn(loss, targets));
    cases.push_back(drawn(cross_entropy_backward_op(loss), targets));
    cases.push_back(drawn(cross_entropy_with_gradient_op(loss), targets));
    const TensorType features{DType::f32, {rows, 19}}, weight{DType::f32, {classes, 19}};
    for (const std::int64_t chunk_rows : {5, 16}) {
      const LinearCrossEntropyAttributes chunks{.loss = attributes_of<CrossEntropyAttributes>(loss),
                                                .chunk_rows = chunk_rows};
      const std::map<int, Values> classes_behind_bias = {{3, targets.at(1)}};
      cases.push_back(drawn(linear_cross_entropy_op(features, weight, loss.inputs[1], chunks), classes_behind_bias));
      cases.push_back(drawn(linear_cross_entropy_with_gradient_op(features, weight, loss.inputs[1], chunks, DType::f32),
                            classes_behind_bias));
    }
  }
  const std::map<int, Values> targets = {{1, random_values(x, 6, 0, 1)}};
  for (const Op& loss : {mse_op(x, x), bce_with_logits_op(x, x), smooth_l1_op(x, x, {}), error_statistics_op(x, x)})
    cases.push_back(drawn(loss, targets));
  cases.push_back(drawn(mse_backward_op(mse_op(x, x)), targets));
  cases.push_back(drawn(bce_with_logits_backward_op(bce_with_logits_op(x, x)), targets));
  cases.push_back(drawn(smooth_l1_backward_op(smooth_l1_op(x, x, {.beta = 0.5})), targets));
  const std::map<int, Values> guessed = {{1, integers(rows, classes)}};
  cases.push_back(drawn(confusion_matrix_op(x, {DType::i32, {rows}}, {}), guessed));
  if (classes > 1) {
    const Op part = class_statistics_op(x, {DType::i32, {rows}},
                                        {.ranks = {2}, .place = 1, .first_class = classes, .all_classes = 2 * classes});
    std::map<int, Values> of_parts = {{1, integers(rows, 2 * classes)}};
    cases.push_back(drawn(part, of_parts));
    of_parts[2] = random_values(part.outputs[0], 7, 0.5, 1);
    cases.push_back(drawn(class_order_op(part), of_parts));
    of_parts[3] = integers(rows, 7);
    cases.push_back(drawn(cross_entropy_of_parts_op(part), of_parts));
    of_parts.erase(3);
    cases.push_back(drawn(cross_entropy_of_parts_backward_op(cross_entropy_of_parts_op(part)), of_parts));
  }
  const Op dice_sums = dice_sums_op(x, {DType::i32, {rows}}, {.smooth = 1});
  std::map<int, Values> with_sums = guessed;
  with_sums[2] = random_values(dice_sums.outputs[0], 7, 1, 2);
  cases.push_back(drawn(dice_sums, guessed));
  cases.push_back(drawn(dice_op(dice_sums), with_sums));
  cases.push_back(drawn(dice_backward_op(dice_op(dice_sums)), with_sums));
}

void append_rows(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 13}, Shape{257, 5}, Shape{31, 257}, Shape{3, 1031}}) {
    const TensorType x{DType::f32, shape};
    for (const bool centres : {true, false}) {
      const LayerNormAttributes attributes{.centres = centres};
      const Op layernorm = layernorm_op(x, attributes);
      if (shape[1] > 1) cases.push_back(drawn(layernorm));
      if (shape[1] > 1) cases.push_back(drawn(layernorm_adding_op(layernorm)));
      const Op backward = layernorm_backward_op(layernorm);
      for (const Op& op : {backward, layernorm_adding_backward_op(backward)})
        cases.push_back(drawn(op, {{layernorm_places(attributes).backward_rstd, random_values(shape[0], 8, 0.5, 2)}}));
    }
    for (const std::int64_t out : {1, 17, 67}) {
      const Op linear = linear_op(x, {.out = out});
      cases.push_back(drawn(linear));
      cases.push_back(drawn(linear_op(x, {.out = out, .relu = true})));
      cases.push_back(drawn(linear_backward_input_op(linear)));
      cases.push_back(drawn(linear_backward_weight_op(linear)));
    }
    append_groupnorms(cases, x);
    append_losses(cases, x);
  }
}

void append_embeddings(std::vector<OpCase>& cases) {
  for (const auto& [places, num, dim] :
       {std::array<std::int64_t, 3>{1031, 1, 1}, {67, 257, 384}, {2051, 65, 33}, {17, 70001, 3}}) {
    const Op embedding = embedding_op({DType::i32, {1, places}}, num, dim);
    const Op backward = embedding_backward_op(embedding);
    cases.push_back(drawn(embedding, {{0, integers(places, num)}}));
    cases.push_back(drawn(backward, {{1, integers(places, num)}}));
    cases.push_back(drawn(embedding_add_backward_op(backward), {{1, integers(places, num)}}));
  }
  for (const Shape& x : {Shape{1, 1, 1}, Shape{3, 67, 257}, Shape{17, 5, 1032}}) {
    const Op embedding = position_embedding_op({DType::f32, x}, 70);
    cases.push_back(drawn(embedding));
    cases.push_back(drawn(position_embedding_at_op(embedding), {{2, integers(x[0] * x[1], 70)}}));
    cases.push_back(drawn(position_embedding_backward_op(embedding)));
    const Op documents = document_spans_op({DType::i32, {x[0], x[1]}}, {.document_token = 3, .pad_token = 5});
    cases.push_back(drawn(documents, {{0, integers(x[0] * x[1], 9)}}));
  }
}

/// Of three documents, the first the shortest.
Values spans_of_thirds(const Shape& spans) {
  const std::int64_t length = spans[1];
  Values values;
  for (std::int64_t at = 0; at < spans[0] * length; ++at) {
    const std::int64_t i = at % length, ends[] = {0, length / 5, length / 2, length};
    const int document = i < ends[1] ? 0 : i < ends[2] ? 1 : 2;
    values.push_back(static_cast<double>(ends[document]));
    values.push_back(static_cast<double>(ends[document + 1]));
  }
  return values;
}

void append_attention(std::vector<OpCase>& cases, const Op& op) {
  std::map<int, Values> given;
  const int spans = spans_position(op);
  if (spans >= 0) given[spans] = spans_of_thirds(op.inputs.back().shape);
  cases.push_back(drawn(op, given));
  const std::int64_t logarithms = op.outputs[1].num_elements();
  const auto last = static_cast<int>(op.inputs.size()) + 2;
  std::map<int, Values> given_backward = {{last, random_values(logarithms, 8, 3, 5)}};
  if (spans >= 0) given_backward[spans + 1] = given[spans];
  cases.push_back(drawn(attention_backward_op(op), given_backward));
}

/// New tokens of two texts: the second one's are the last that have room.
void append_cached_attention(std::vector<OpCase>& cases, const Op& attention, std::int64_t length) {
  const Op op = cached_attention_op(attention, length);
  const std::int64_t tokens = cached_attention_shape(op).queries;
  Values positions;
  for (const std::int64_t first : {std::int64_t{0}, length - tokens})
    for (std::int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<double>(first + t));
  cases.push_back(drawn(op, {{num_attended(op), positions}}));
}

void append_attentions(std::vector<OpCase>& cases) {
  const auto packed = [](std::int64_t positions, std::int64_t features) {
    return TensorType{DType::f32, {2, positions, features}};
  };
  append_attention(cases, attention_op(packed(1, 12), {.heads = 2, .kv_heads = 2}));
  append_attention(cases, attention_op(packed(33, 5 * 24), {.heads = 3, .kv_heads = 1, .causal = true}));
  append_attention(cases, attention_op(packed(70, 3 * 72), {.causal = true, .window = 41, .rotary_base = 10000}));
  append_attention(cases, attention_op(packed(37, 4 * 80), {.heads = 2, .p = 0.2, .stream = 7}));
  append_attention(cases, attention_op(packed(19, 3 * 256), {.causal = true, .rotary_base = 10000}));
  append_attention(cases, attention_op(packed(65, 4 * 18), {.heads = 2, .p = 0.2, .stream = 3}));
  append_attention(
      cases, attention_op(packed(45, 4 * 17), packed(131, 2 * 17), packed(131, 2 * 17), {.heads = 4, .kv_heads = 2}));
  append_attention(cases, attention_op(packed(100, 32), packed(3, 32), packed(3, 32), {.rotary_base = 50}));
  const auto with_documents = [](const Op& op) {
    return attention_within_spans_op(op, {DType::i32, {op.outputs[0].shape[0], op.outputs[0].shape[1], 2}});
  };
  append_attention(cases, with_documents(attention_op(packed(150, 3 * 40), {.causal = true, .window = 70})));
  append_attention(cases, with_documents(attention_op(packed(97, 4 * 20), {.heads = 2, .p = 0.2, .stream = 3})));
  // Several tiles of the kernels for tensor cores, in each of their widths.
  append_attention(cases, attention_op(packed(150, 4 * 64), {.heads = 2, .causal = true, .rotary_base = 10000}));
  append_attention(cases, attention_op(packed(133, 5 * 40), {.heads = 3, .causal = true, .window = 37}));
  append_attention(cases, attention_op(packed(67, 2 * 128), packed(99, 128), packed(99, 128), {.heads = 2}));
  append_attention(cases,
                   attention_op(packed(75, 4 * 96), {.heads = 2, .causal = true, .window = 40, .rotary_base = 1000}));
  append_attention(cases, attention_op(packed(70, 4 * 24), {.heads = 2, .causal = true, .p = 0.2, .stream = 5}));
  append_attention(cases, with_documents(attention_op(packed(203, 3 * 64), {.causal = true})));
  append_attention(cases, with_documents(attention_op(packed(141, 4 * 32), {.heads = 2, .p = 0.2, .stream = 6})));
  append_attention(cases, attention_op(packed(47, 6 * 16), {.heads = 4}));
  append_attention(cases, attention_op(packed(66, 3 * 8), {.causal = true}));
  append_cached_attention(cases, attention_op(packed(1, 3 * 64), {.causal = true}), 1000);
  append_cached_attention(
      cases, attention_op(packed(33, 6 * 36), {.heads = 4, .causal = true, .window = 90, .rotary_base = 500}), 129);
  append_cached_attention(
      cases, attention_op(packed(2, 5 * 130), packed(2, 130), packed(2, 130), {.heads = 5, .causal = true}), 35);
}

void append_updates(std::vector<OpCase>& cases) {
  const std::vector<TensorType> parameters = {
      {DType::f32, {1}}, {DType::f32, {257}}, {DType::f32, {1021, 3}}, {DType::f32, {4099}}};
  const Values statistics = {2.5, 8, 3, 5, 8}, factor = {4, 0.25, 1}, loss_scale = {1024, 6, 2};
  cases.push_back(drawn(gradient_squares_op(parameters)));
  cases.push_back(drawn(gradient_factor_op(parameters, {.clip_norm = 1})));
  cases.push_back(drawn(start_loss_statistics_op()));
  cases.push_back(drawn(keep_part_statistics_op({.num_parts = 8, .part = 5})));
  cases.push_back(drawn(sum_part_statistics_op({.num_parts = 8})));
  for (const UpdateFormat& format :
       {UpdateFormat{}, UpdateFormat{.factored = true},
        UpdateFormat{.factored = true, .scaled = true, .gradients = DType::f16, .copies = DType::bf16}}) {
    std::map<int, Values> given = {{0, statistics}};
    if (format.factored) given[1] = factor;
    if (format.scaled) given[2] = loss_scale;
    const bool clip = format.factored;
    cases.push_back(drawn(
        sgd_update_op(parameters, {.momentum = 0.9, .nesterov = clip, .weight_decay = 0.1, .format = format}), given));
    cases.back().tolerance = format.copies ? 4e-3 : cases.back().tolerance;
    const AdamUpdateAttributes adam{.weight_decay = 0.1, .decoupled = clip, .format = format};
    int second_moment = first_parameter_operand(format) + operands_of_a_parameter(adam) - 1;
    for (const TensorType& parameter : parameters) {
      given[second_moment] = random_values(parameter, 4, 0.1, 1);
      second_moment += operands_of_a_parameter(adam);
    }
    cases.push_back(drawn(adam_update_op(parameters, adam), given));
    cases.back().tolerance = format.copies ? 4e-3 : cases.back().tolerance;
  }
  for (const TensorType& parameter : parameters) {
    cases.push_back(drawn(cast_op(parameter, DType::bf16)));
    cases.push_back(drawn(scale_gradient_op(parameter), {{1, loss_scale}}));
  }
  cases.push_back(drawn(update_loss_scale_op({}), {{0, statistics}, {1, factor}, {2, loss_scale}}));
  for (const double share : {0.001, 1.0}) {
    cases.push_back(drawn(average_weights_op(parameters)));
    cases.back().scalars.average_share = share;
  }
  cases.push_back(drawn(fill_zero_op(parameters)));
  cases.push_back(drawn(all_reduce_op(parameters, {1})));
  cases.push_back(drawn(reduce_scatter_op(parameters, {1}, 0)));
  cases.push_back(drawn(all_gather_op(parameters, {1}, 0)));
  cases.push_back(drawn(broadcast_op(parameters, {1})));
  cases.push_back(drawn(send_op(parameters.front(), {.ranks = {1}})));
  cases.push_back(drawn(receive_op(parameters.front(), {.ranks = {1}})));
  cases.push_back(drawn(finish_exchange_op(parameters)));
}

}  // namespace

std::vector<OpCase> larger_cases() {
  std::vector<OpCase> cases;
  append_elementwise(cases);
  append_images(cases);
  append_rows(cases);
  append_embeddings(cases);
  append_attentions(cases);
  append_updates(cases);
  return cases;
}

}  // namespace trainer
