#include "tests/cuda/host_convolution.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/kernels/element.h"

namespace trainer::cuda {

namespace {

std::int64_t host_workspace_bytes(const ConvolutionCall& call) {
  std::int64_t bytes = 1 + static_cast<std::int64_t>(call.direction);
  for (const std::int64_t size : call.x) bytes = bytes * 31 % 997 + size;
  for (const std::int64_t size : call.y) bytes = bytes * 31 % 997 + size;
  return std::min(bytes, call.workspace_limit);
}

void require_operands(const ConvolutionCall& call, const ConvolutionOperands& operands) {
  const auto given_where_used = [](const void* operand, bool is_used) {
    require_internal((operand != nullptr) == is_used,
                     "a convolution has exactly the operands that its description names");
  };
  given_where_used(operands.x, true);
  given_where_used(operands.weights, true);
  given_where_used(operands.y, true);
  given_where_used(operands.bias, call.bias);
  given_where_used(operands.sums, call.statistics);
  given_where_used(operands.square_sums, call.statistics);
  given_where_used(operands.workspace, host_workspace_bytes(call) > 0);
}

void require_consistent(const ConvolutionCall& call) {
  require_internal(call.direction == ConvolutionDirection::forward || (!call.bias && !call.relu),
                   "only a convolution forward has bias and relu");
  require_internal(call.bias || !call.relu, "a convolution has relu only behind its bias");
  require_internal(!call.statistics || (call.direction == ConvolutionDirection::forward && !call.bias),
                   "only a convolution forward has statistics, and no bias then");
  require_internal(call.x[0] == call.y[0] && call.x[3] % call.groups == 0 && call.y[3] % call.groups == 0,
                   "the images of a convolution agree in number, and their channels are divided by its groups");
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t reach = call.dilation[axis] * (call.kernel[axis] - 1) + 1;
    require_internal((call.x[1 + axis] + 2 * call.padding[axis] - reach) / call.stride[axis] + 1 == call.y[1 + axis],
                     "the images of a convolution agree in size");
  }
}

/// Calls visit(x, weights, y, count) with the first indices of `count` products in a row that the convolution sums
/// into, or takes from, one element of y.
template <typename Visit>
void for_each_row_of_products(const ConvolutionCall& call, Visit&& visit) {
  const auto& [num_images, height, width, channels] = call.x;
  const auto& [same_images, out_height, out_width, out_channels] = call.y;
  const std::int64_t in_each = channels / call.groups, out_each = out_channels / call.groups;
  for (std::int64_t n = 0; n < num_images; ++n)
    for (std::int64_t p = 0; p < out_height; ++p)
      for (std::int64_t q = 0; q < out_width; ++q)
        for (std::int64_t k = 0; k < out_channels; ++k)
          for (std::int64_t i = 0; i < call.kernel[0]; ++i)
            for (std::int64_t j = 0; j < call.kernel[1]; ++j) {
              const std::int64_t h = p * call.stride[0] + i * call.dilation[0] - call.padding[0];
              const std::int64_t w = q * call.stride[1] + j * call.dilation[1] - call.padding[1];
              if (h < 0 || w < 0 || h >= height || w >= width) continue;
              visit(((n * height + h) * width + w) * channels + k / out_each * in_each,
                    ((k * call.kernel[0] + i) * call.kernel[1] + j) * in_each,
                    ((n * out_height + p) * out_width + q) * out_channels + k, in_each);
            }
}

/// Four sums side by side: one alone waits for each of its additions.
double dot(const double* left, const double* right, std::int64_t count) {
  double sums[4] = {};
  std::int64_t c = 0;
  for (; c + 4 <= count; c += 4)
    for (std::int64_t lane = 0; lane < 4; ++lane) sums[lane] += left[c + lane] * right[c + lane];
  for (; c < count; ++c) sums[0] += left[c] * right[c];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// to += factor · from
void add_scaled(double* to, double factor, const double* from, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) to[c] += factor * from[c];
}

std::int64_t num_elements(const std::array<std::int64_t, 4>& image) {
  return image[0] * image[1] * image[2] * image[3];
}

template <typename T>
class HostConvolution final : public Convolution {
 public:
  explicit HostConvolution(const ConvolutionCall& call) : call_(call) { require_consistent(call); }

  void run(const ConvolutionOperands& operands, Stream) override {
    require_operands(call_, operands);
    if (operands.workspace != nullptr)
      std::memset(operands.workspace, 0x5A, static_cast<std::size_t>(host_workspace_bytes(call_)));
    switch (call_.direction) {
      case ConvolutionDirection::forward: {
        const Elements x = load(operands.x, num_elements(call_.x)), weights = load(operands.weights, num_weights());
        Elements y(at(num_elements(call_.y)));
        if (call_.bias) {
          const Elements bias = load(operands.bias, call_.y[3]);
          for (std::size_t o = 0; o < y.size(); ++o) y[o] = bias[o % bias.size()];
        }
        for_each_row_of_products(
            call_, [&](auto i, auto w, auto o, auto count) { y[at(o)] += dot(&x[at(i)], &weights[at(w)], count); });
        if (call_.relu)
          for (double& value : y) value = value < 0 ? 0 : value;
        store(y, operands.y);
        if (call_.statistics) store_statistics(operands);
        return;
      }
      case ConvolutionDirection::input_gradient: {
        const Elements dy = load(operands.y, num_elements(call_.y)), weights = load(operands.weights, num_weights());
        Elements dx(at(num_elements(call_.x)));
        for_each_row_of_products(call_, [&](auto i, auto w, auto o, auto count) {
          add_scaled(&dx[at(i)], dy[at(o)], &weights[at(w)], count);
        });
        store(dx, operands.x);
        return;
      }
      case ConvolutionDirection::weight_gradient: {
        const Elements dy = load(operands.y, num_elements(call_.y)), x = load(operands.x, num_elements(call_.x));
        Elements dw(at(num_weights()));
        for_each_row_of_products(
            call_, [&](auto i, auto w, auto o, auto count) { add_scaled(&dw[at(w)], dy[at(o)], &x[at(i)], count); });
        store(dw, operands.weights);
        return;
      }
    }
  }

 private:
  using Elements = std::vector<double>;
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

  std::int64_t num_weights() const {
    return call_.y[3] * call_.kernel[0] * call_.kernel[1] * call_.x[3] / call_.groups;
  }
  static Elements load(const void* from, std::int64_t count) {
    Elements elements;
    for (std::int64_t i = 0; i < count; ++i)
      elements.push_back(static_cast<double>(to_float(static_cast<const T*>(from)[i])));
    return elements;
  }
  static void store(const Elements& elements, void* to) {
    for (std::size_t i = 0; i < elements.size(); ++i)
      static_cast<T*>(to)[i] = from_float<T>(static_cast<float>(elements[i]));
  }

  void store_statistics(const ConvolutionOperands& operands) const {
    const Elements y = load(operands.y, num_elements(call_.y));
    const std::size_t channels = at(call_.y[3]);
    Elements sums(channels), square_sums(channels);
    for (std::size_t o = 0; o < y.size(); ++o) {
      sums[o % channels] += y[o];
      square_sums[o % channels] += y[o] * y[o];
    }
    for (std::size_t k = 0; k < channels; ++k) {
      operands.sums[k] = static_cast<float>(sums[k]);
      operands.square_sums[k] = static_cast<float>(square_sums[k]);
    }
  }

  ConvolutionCall call_;
};

}  // namespace

std::unique_ptr<Convolution> make_host_convolution(const ConvolutionCall& call) {
  std::unique_ptr<Convolution> convolution;
  with_element_type(call.type, [&](auto type) {
    convolution = std::make_unique<HostConvolution<typename decltype(type)::type>>(call);
  });
  return convolution;
}

std::int64_t HostConvolutionPlanner::workspace_bytes(const ConvolutionCall& call) { return host_workspace_bytes(call); }

}  // namespace trainer::cuda
