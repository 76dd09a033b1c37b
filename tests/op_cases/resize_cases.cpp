// Ops that make images of other sizes: along each axis an output is a weighted sum of inputs, and a pixel the sum over
// both axes.

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

/// Weight of an input in an output, along one axis.
using AxisWeight = std::function<double(std::int64_t output, std::int64_t input)>;

/// inputs: x; `constant`, where given, takes up what the weights of an output lack of 1.
Reference resized(const Shape& x, const Shape& y, const AxisWeight& row_weight, const AxisWeight& column_weight,
                  double constant = 0) {
  return [=](const std::vector<Values>& inputs) {
    Values result;
    for (std::int64_t n = 0; n < y[0]; ++n)
      for (std::int64_t row = 0; row < y[1]; ++row)
        for (std::int64_t column = 0; column < y[2]; ++column) {
          Values sums(static_cast<std::size_t>(y[3]));
          double rest = 1;
          for (std::int64_t h = 0; h < x[1]; ++h)
            for (std::int64_t w = 0; w < x[2]; ++w) {
              const double weight = row_weight(row, h) * column_weight(column, w);
              rest -= weight;
              if (weight == 0) continue;
              for (std::int64_t c = 0; c < y[3]; ++c)
                sums[static_cast<std::size_t>(c)] +=
                    weight * inputs[0][static_cast<std::size_t>(((n * x[1] + h) * x[2] + w) * x[3] + c)];
            }
          for (const double sum : sums) result.push_back(sum + rest * constant);
        }
    return result;
  };
}

struct ResizeCase {
  std::string name;
  Op op, backward;
  Reference reference;
};

std::vector<OpCase> forward_cases(const std::vector<ResizeCase>& all) {
  std::vector<OpCase> cases;
  for (const ResizeCase& c : all) {
    const Values x = random_values(c.op.inputs[0], 1);
    cases.push_back({c.name, c.op, {x}, {{c.reference({x})}}});
  }
  return cases;
}

std::vector<OpCase> backward_cases(const std::vector<ResizeCase>& all) {
  std::vector<OpCase> cases;
  for (const ResizeCase& c : all) {
    const Values x = random_values(c.op.inputs[0], 1);
    if (x.size() > 700) continue;
    const Values dy = random_values(c.op.outputs[0], 9);
    cases.push_back({c.name, c.backward, {dy}, {{finite_difference(c.reference, {x}, 0, dy)}}});
  }
  return cases;
}

TensorType images(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t channels) {
  return {DType::f32, {batch, height, width, channels}};
}

/// An input counts where the part of the line that is the output's, in units of 1 / (in · out), meets its own.
AxisWeight adaptive_weight(std::int64_t in, std::int64_t out) {
  const auto meet = [=](std::int64_t output, std::int64_t input) {
    return output * in < (input + 1) * out && (output + 1) * in > input * out;
  };
  return [=](std::int64_t output, std::int64_t input) {
    double count = 0;
    for (std::int64_t i = 0; i < in; ++i) count += meet(output, i) ? 1 : 0;
    return meet(output, input) ? 1 / count : 0;
  };
}

std::vector<ResizeCase> adaptive_avgpool_cases() {
  struct Sizes {
    const char* name;
    TensorType x;
    Pair size;
  };
  std::vector<ResizeCase> cases;
  for (const Sizes& s :
       {Sizes{"one pixel", images(1, 1, 1, 1), {1, 1}}, Sizes{"all of it", images(2, 5, 3, 7), {1, 1}},
        Sizes{"as it is", images(2, 3, 4, 5), {3, 4}}, Sizes{"halves", images(1, 6, 8, 16), {3, 4}},
        Sizes{"windows overlap", images(2, 7, 5, 3), {3, 4}}, Sizes{"thirds of ten", images(1, 10, 11, 8), {3, 3}},
        Sizes{"more than there are", images(1, 3, 2, 9), {7, 5}}, Sizes{"threads", images(3, 17, 13, 33), {7, 6}}}) {
    const Op op = adaptive_avgpool2d_op(s.x, s.size);
    const Shape &x = s.x.shape, &y = op.outputs[0].shape;
    cases.push_back({s.name, op, adaptive_avgpool2d_backward_op(op),
                     resized(x, y, adaptive_weight(x[1], y[1]), adaptive_weight(x[2], y[2]))});
  }
  return cases;
}

/// The input whose part of the line, in units of 1 / (in · out), has the output's first point.
AxisWeight nearest_weight(std::int64_t in, std::int64_t out) {
  return [=](std::int64_t output, std::int64_t input) { return output * in / out == input ? 1.0 : 0.0; };
}

/// Of the tent over each input's centre, its height at the output's. Centres lie half a pixel from the borders, or,
/// with align_corners, are counted from the first.
AxisWeight tent_weight(std::int64_t in, std::int64_t out, bool align_corners) {
  return [=](std::int64_t output, std::int64_t input) {
    const auto inputs = static_cast<double>(in), outputs = static_cast<double>(out), at = static_cast<double>(output);
    double position = (at + 0.5) / outputs * inputs - 0.5;
    if (align_corners) position = out == 1 ? 0 : at / (outputs - 1) * (inputs - 1);
    position = std::clamp(position, 0.0, inputs - 1);
    return std::max(0.0, 1 - std::fabs(position - static_cast<double>(input)));
  };
}

std::vector<ResizeCase> upsample_resize_cases() {
  struct Sizes {
    const char* name;
    TensorType x;
    Pair scale, size;
  };
  std::vector<ResizeCase> cases;
  for (const Sizes& s :
       {Sizes{"one pixel", images(1, 1, 1, 1), {1, 1}, {}}, Sizes{"as it is", images(2, 3, 4, 5), {1, 1}, {}},
        Sizes{"twice", images(2, 3, 5, 7), {2, 2}, {}}, Sizes{"thrice and not", images(1, 4, 3, 16), {3, 1}, {}},
        Sizes{"a pixel spreads", images(1, 1, 2, 9), {5, 4}, {}}, Sizes{"larger", images(2, 4, 5, 8), {}, {7, 9}},
        Sizes{"smaller", images(1, 9, 8, 3), {}, {4, 5}}, Sizes{"to one", images(1, 5, 6, 2), {}, {1, 1}},
        Sizes{"threads", images(2, 16, 13, 33), {2, 2}, {}}}) {
    const Shape& x = s.x.shape;
    for (const auto& [mode, align_corners, name] : {std::tuple{Interpolation::nearest, false, "nearest"},
                                                    {Interpolation::bilinear, false, "bilinear"},
                                                    {Interpolation::bilinear, true, "bilinear by corners"}}) {
      const Op op = upsample_op(s.x, {.mode = mode, .align_corners = align_corners, .scale = s.scale}, s.size);
      const Shape& y = op.outputs[0].shape;
      const bool is_nearest = mode == Interpolation::nearest;
      const AxisWeight rows = is_nearest ? nearest_weight(x[1], y[1]) : tent_weight(x[1], y[1], align_corners);
      const AxisWeight columns = is_nearest ? nearest_weight(x[2], y[2]) : tent_weight(x[2], y[2], align_corners);
      cases.push_back({std::string(s.name) + ", " + name, op, upsample_backward_op(op), resized(x, y, rows, columns)});
    }
  }
  return cases;
}

/// By walking from the edge, a pixel a time, and turning around or standing still where there is no further one.
AxisWeight pad_weight(std::int64_t in, std::int64_t before, PadMode mode) {
  const auto source = [=](std::int64_t output) -> std::int64_t {
    std::int64_t at = output < before ? 0 : in - 1;
    std::int64_t step = output < before ? 1 : -1;
    const std::int64_t outside = output < before ? before - output : output - before - in + 1;
    if (output >= before && output < before + in) return output - before;
    if (mode == PadMode::zeros) return -1;
    if (mode == PadMode::replicate) step = 0;
    for (std::int64_t i = 0; i < outside; ++i) at += step;
    return at;
  };
  return [=](std::int64_t output, std::int64_t input) { return source(output) == input ? 1.0 : 0.0; };
}

std::vector<ResizeCase> pad_resize_cases() {
  struct Sizes {
    const char* name;
    TensorType x;
    Sides sides;
  };
  std::vector<ResizeCase> cases;
  for (const Sizes& s :
       {Sizes{"none of one pixel", images(1, 1, 1, 1), {0, 0, 0, 0}}, Sizes{"one", images(2, 3, 4, 5), {1, 1, 1, 1}},
        Sizes{"each its own", images(1, 5, 4, 8), {0, 4, 3, 1}},
        Sizes{"as far as can be", images(2, 2, 3, 7), {1, 1, 2, 2}}, Sizes{"one row", images(1, 1, 3, 3), {0, 0, 2, 1}},
        Sizes{"threads", images(2, 15, 17, 33), {3, 2, 1, 4}}}) {
    const Shape& x = s.x.shape;
    for (const auto& [mode, value, name] : {std::tuple{PadMode::zeros, 0.0, "zeros"},
                                            {PadMode::zeros, -1.5, "a number"},
                                            {PadMode::reflect, 0.0, "reflect"},
                                            {PadMode::replicate, 0.0, "replicate"}}) {
      const Op op = pad_op(s.x, {.size = s.sides, .mode = mode, .value = value});
      const Shape& y = op.outputs[0].shape;
      cases.push_back({std::string(s.name) + ", " + name, op, pad_backward_op(op),
                       resized(x, y, pad_weight(x[1], s.sides[0], mode), pad_weight(x[2], s.sides[2], mode), value)});
    }
  }
  // Wider than the image, which mirrors only what it has.
  for (const auto mode : {PadMode::zeros, PadMode::replicate}) {
    const Op op = pad_op(images(1, 1, 2, 3), {.size = {3, 2, 4, 5}, .mode = mode});
    cases.push_back({"wider than the image", op, pad_backward_op(op),
                     resized(op.inputs[0].shape, op.outputs[0].shape, pad_weight(1, 3, mode), pad_weight(2, 4, mode))});
  }
  return cases;
}

}  // namespace

std::vector<OpCase> upsample_cases() { return forward_cases(upsample_resize_cases()); }
std::vector<OpCase> upsample_backward_cases() { return backward_cases(upsample_resize_cases()); }
std::vector<OpCase> pad_cases() { return forward_cases(pad_resize_cases()); }
std::vector<OpCase> pad_backward_cases() { return backward_cases(pad_resize_cases()); }

std::vector<OpCase> adaptive_avgpool2d_cases() { return forward_cases(adaptive_avgpool_cases()); }
std::vector<OpCase> adaptive_avgpool2d_backward_cases() { return backward_cases(adaptive_avgpool_cases()); }

}  // namespace trainer
