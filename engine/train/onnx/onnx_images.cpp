#include "engine/train/onnx/onnx_images.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/errors.h"

namespace trainer {
namespace {

OnnxDims pair_of(const std::array<std::int64_t, 2>& pair) { return {pair[0], pair[1]}; }

/// An output's window along an axis, as it is without padding: a part of the axis.
struct PooledAxis {
  std::int64_t in, out, kernel, stride, padding;

  std::int64_t begin(std::int64_t output) const { return output * stride - padding; }
  std::int64_t num_inside(std::int64_t output) const {
    return std::min(begin(output) + kernel, in) - std::max<std::int64_t>(begin(output), 0);
  }
  std::int64_t num_with_padding(std::int64_t output) const {
    return std::min(begin(output) + kernel, in + padding) - begin(output);
  }
  /// Behind the axis, so that there are as many windows: more than `padding` under ceil_mode.
  std::int64_t padding_behind() const { return std::max<std::int64_t>((out - 1) * stride + kernel - in - padding, 0); }
};

std::array<PooledAxis, 2> pooled_axes(const Op& op) {
  const auto& attributes = attributes_of<Pool2dAttributes>(op);
  const Shape &x = op.inputs[0].shape, &y = op.outputs[0].shape;
  const auto axis = [&](std::size_t i) {
    const int place = 1 + static_cast<int>(i);
    return PooledAxis{x[place], y[place], attributes.kernel[i], attributes.stride[i], attributes.padding[i]};
  };
  return {axis(0), axis(1)};
}

std::vector<OnnxAttribute> window_of(const std::array<PooledAxis, 2>& axes) {
  return {{"kernel_shape", OnnxDims{axes[0].kernel, axes[1].kernel}},
          {"strides", OnnxDims{axes[0].stride, axes[1].stride}},
          {"pads", OnnxDims{axes[0].padding, axes[1].padding, axes[0].padding_behind(), axes[1].padding_behind()}}};
}

/// How much each input of an axis counts in each output.
struct AxisWeights {
  std::int64_t in = 0, out = 0;
  std::vector<float> weights;  ///< (out, in)

  AxisWeights(std::int64_t inputs, std::int64_t outputs)
      : in(inputs), out(outputs), weights(static_cast<std::size_t>(inputs * outputs)) {}
  float& at(std::int64_t output, std::int64_t input) { return weights[static_cast<std::size_t>(output * in + input)]; }
};

/// Rows and columns of images mixed by weights of their own.
std::string mixed(OnnxValues& values, const std::string& x, const AxisWeights& rows, const AxisWeights& columns) {
  std::vector<float> turned;
  for (std::int64_t input = 0; input < columns.in; ++input)
    for (std::int64_t output = 0; output < columns.out; ++output)
      turned.push_back(columns.weights[static_cast<std::size_t>(output * columns.in + input)]);
  const std::string in_rows = values.add("MatMul", {x, values.onnx().numbers(turned, {columns.in, columns.out})});
  return values.add("MatMul", {values.onnx().numbers(rows.weights, {rows.out, rows.in}), in_rows});
}

AxisWeights adaptive_axis(std::int64_t in, std::int64_t out) {
  AxisWeights axis(in, out);
  for (std::int64_t i = 0; i < out; ++i) {
    const std::int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
    for (std::int64_t input = begin; input < end; ++input) axis.at(i, input) = 1 / static_cast<float>(end - begin);
  }
  return axis;
}

// Positions in f32, as PyTorch has them: engine/ops/upsample.h.

float upsampled_ratio(std::int64_t scale, std::int64_t in, std::int64_t out) {
  return scale > 0 ? static_cast<float>(1.0 / static_cast<double>(scale))
                   : static_cast<float>(in) / static_cast<float>(out);
}

std::vector<std::int64_t> nearest_pixels(std::int64_t scale, std::int64_t in, std::int64_t out) {
  std::vector<std::int64_t> pixels;
  for (std::int64_t i = 0; i < out; ++i)
    pixels.push_back(std::min(
        static_cast<std::int64_t>(std::floor(static_cast<float>(i) * upsampled_ratio(scale, in, out))), in - 1));
  return pixels;
}

AxisWeights bilinear_axis(const UpsampleAttributes& attributes, std::int64_t scale, std::int64_t in, std::int64_t out) {
  AxisWeights axis(in, out);
  const float ratio = upsampled_ratio(scale, in, out);
  const float corner_ratio = out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0F;
  for (std::int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<float>(i);
    const float position = attributes.align_corners ? at * corner_ratio : std::max(ratio * (at + 0.5F) - 0.5F, 0.0F);
    const std::int64_t lower = std::min(static_cast<std::int64_t>(std::floor(position)), in - 1);
    const float share = std::clamp(position - static_cast<float>(lower), 0.0F, 1.0F);
    axis.at(i, lower) += 1 - share;
    axis.at(i, std::min(lower + 1, in - 1)) += share;
  }
  return axis;
}

}  // namespace

std::string onnx_convolution(OnnxValues& values, const Op& op, const std::string& x, const std::string& weight,
                             const std::string& bias) {
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  std::vector<std::string> inputs = {x, weight};
  if (!bias.empty()) inputs.push_back(bias);
  const auto [rows, columns] = attributes.padding;
  return values.add("Conv", inputs,
                    {{"kernel_shape", pair_of(attributes.kernel)},
                     {"strides", pair_of(attributes.stride)},
                     {"pads", OnnxDims{rows, columns, rows, columns}},
                     {"dilations", pair_of(attributes.dilation)},
                     {"group", attributes.groups}});
}

std::string onnx_transposed_convolution(OnnxValues& values, const Op& op, const std::string& x,
                                        const std::string& weight, const std::string& bias) {
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  std::vector<std::string> inputs = {x, weight};
  if (!bias.empty()) inputs.push_back(bias);
  const auto [rows, columns] = attributes.padding;
  OnnxDims more;  // rows and columns at the end
  for (std::size_t i = 0; i < 2; ++i) {
    const int axis = 1 + static_cast<int>(i);
    more.push_back(op.outputs[0].shape[axis] -
                   ((op.inputs[0].shape[axis] - 1) * attributes.stride[i] - 2 * attributes.padding[i] +
                    attributes.dilation[i] * (attributes.kernel[i] - 1) + 1));
  }
  return values.add("ConvTranspose", inputs,
                    {{"kernel_shape", pair_of(attributes.kernel)},
                     {"strides", pair_of(attributes.stride)},
                     {"pads", OnnxDims{rows, columns, rows, columns}},
                     {"output_padding", more},
                     {"dilations", pair_of(attributes.dilation)},
                     {"group", attributes.groups}});
}

std::string onnx_max_pooling(OnnxValues& values, const Op& op, const std::string& x) {
  return values.add("MaxPool", {x}, window_of(pooled_axes(op)));
}

std::string onnx_mean_pooling(OnnxValues& values, const Op& op, const std::string& x) {
  const std::array<PooledAxis, 2> axes = pooled_axes(op);
  std::vector<OnnxAttribute> attributes = window_of(axes);
  attributes.push_back({"count_include_pad", std::int64_t{1}});
  std::string means = values.add("AveragePool", {x}, attributes);
  // These divide by the whole window; where a window counts less than that, its mean is more.
  const auto count = [&](const PooledAxis& axis, std::int64_t output) {
    return attributes_of<Pool2dAttributes>(op).count_include_pad ? axis.num_with_padding(output)
                                                                 : axis.num_inside(output);
  };
  std::vector<float> factors;
  const std::int64_t whole = axes[0].kernel * axes[1].kernel;
  for (std::int64_t row = 0; row < axes[0].out; ++row)
    for (std::int64_t column = 0; column < axes[1].out; ++column)
      factors.push_back(static_cast<float>(whole) / static_cast<float>(count(axes[0], row) * count(axes[1], column)));
  if (std::all_of(factors.begin(), factors.end(), [](float factor) { return factor == 1; })) return means;
  return values.add("Mul", {means, values.onnx().numbers(factors, {axes[0].out, axes[1].out})});
}

std::string onnx_adaptive_mean_pooling(OnnxValues& values, const Op& op, const std::string& x) {
  const Shape &in = op.inputs[0].shape, &out = op.outputs[0].shape;
  return mixed(values, x, adaptive_axis(in[1], out[1]), adaptive_axis(in[2], out[2]));
}

std::string onnx_upsampling(OnnxValues& values, const Op& op, const std::string& x) {
  const auto& attributes = attributes_of<UpsampleAttributes>(op);
  const Shape &in = op.inputs[0].shape, &out = op.outputs[0].shape;
  if (attributes.mode == Interpolation::bilinear)
    return mixed(values, x, bilinear_axis(attributes, attributes.scale[0], in[1], out[1]),
                 bilinear_axis(attributes, attributes.scale[1], in[2], out[2]));
  std::string result = x;
  for (const int axis : {0, 1}) {
    const auto scale = attributes.scale[static_cast<std::size_t>(axis)];
    const std::string pixels = values.onnx().integers(nearest_pixels(scale, in[1 + axis], out[1 + axis]));
    result = values.add("Gather", {result, pixels}, {{"axis", std::int64_t{2 + axis}}});
  }
  return result;
}

std::string onnx_padding(OnnxValues& values, const Op& op, const std::string& x) {
  const auto& attributes = attributes_of<PadAttributes>(op);
  const auto [top, bottom, left, right] = attributes.size;
  std::vector<std::string> inputs = {x, values.onnx().integers({0, 0, top, left, 0, 0, bottom, right})};
  std::string mode = attributes.mode == PadMode::reflect ? "reflect" : "edge";
  if (attributes.mode == PadMode::zeros) {
    mode = "constant";
    inputs.push_back(values.onnx().number(static_cast<float>(attributes.value)));
  }
  return values.add("Pad", inputs, {{"mode", mode}});
}

}  // namespace trainer
