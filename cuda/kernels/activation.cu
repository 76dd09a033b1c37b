#include "cuda/kernels/activation.h"

#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/elementwise.cuh"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {
namespace {

constexpr float sqrt_half = 0.70710678118654752f;
constexpr float reciprocal_sqrt_2pi = 0.39894228040143268f;
// gelu's approximation: x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))
constexpr float tanh_slope = 0.79788456080286536f;
constexpr float tanh_cubic = 0.044715f;

__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }

// Each function of x, and its slope from y or x.
struct Relu {
  // A comparison keeps NaN, which a maximum would not.
  __device__ float operator()(float x) const { return x < 0 ? 0.0f : x; }
  __device__ static float slope(float y) { return y > 0 ? 1.0f : 0.0f; }
};
struct Gelu {
  __device__ float operator()(float x) const { return 0.5f * x * (1.0f + erff(x * sqrt_half)); }
  __device__ static float slope(float x) {
    return 0.5f * (1.0f + erff(x * sqrt_half)) + x * reciprocal_sqrt_2pi * expf(-0.5f * x * x);
  }
};
struct GeluTanh {
  __device__ static float tanh_part(float x) { return tanhf(tanh_slope * (x + tanh_cubic * x * x * x)); }
  __device__ float operator()(float x) const { return 0.5f * x * (1.0f + tanh_part(x)); }
  __device__ static float slope(float x) {
    const float t = tanh_part(x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * tanh_slope * (1.0f + 3.0f * tanh_cubic * x * x);
  }
};
struct Silu {
  __device__ float operator()(float x) const { return x * sigmoid_of(x); }
  __device__ static float slope(float x) {
    const float s = sigmoid_of(x);
    return s * (1.0f + x * (1.0f - s));
  }
};
struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
  __device__ static float slope(float y) { return 1.0f - y * y; }
};
struct Sigmoid {
  __device__ float operator()(float x) const { return sigmoid_of(x); }
  __device__ static float slope(float y) { return y * (1.0f - y); }
};
struct LeakyRelu {
  float below;
  __device__ float operator()(float x) const { return x > 0 ? x : below * x; }
  __device__ float slope(float y_or_x) const { return y_or_x > 0 ? 1.0f : below; }
};
struct Relu6 {
  __device__ float operator()(float x) const {
    const float above = x < 0 ? 0.0f : x;
    return above > 6 ? 6.0f : above;
  }
  __device__ static float slope(float y) { return y > 0 && y < 6 ? 1.0f : 0.0f; }
};
struct HardSigmoid {
  __device__ float operator()(float x) const { return Relu6{}(x + 3.0f) * (1.0f / 6.0f); }
  __device__ static float slope(float y) { return y > 0 && y < 1 ? 1.0f / 6.0f : 0.0f; }
};
struct HardSwish {
  __device__ float operator()(float x) const { return x * HardSigmoid{}(x); }
  __device__ static float slope(float x) {
    if (x <= -3) return 0.0f;
    return x < 3 ? x * (1.0f / 3.0f) + 0.5f : 1.0f;
  }
};

template <typename Function>
struct Backward {
  Function function;
  __device__ float operator()(float dy, float y_or_x) const { return dy * function.slope(y_or_x); }
};

constexpr int most_activation_lanes = 32;

template <typename T, int n, typename Function>
__global__ void __launch_bounds__(tile_threads)
    placed_activation_kernel(Function function, const T* __restrict__ x, T* __restrict__ y, std::int64_t rows,
                             std::int64_t channels, std::int64_t y_channels, std::int64_t rows_per_block,
                             std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(num_tiles, channels);
  if (!at.active) return;
  const auto [begin, end] = at.rows_of_group(rows_per_block, rows);
  for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
    Pack<float, n> values = load_floats<n>(x + row * channels + at.channel);
    for (int i = 0; i < n; ++i) values.values[i] = function(values.values[i]);
    store_floats(y + row * y_channels + at.channel, values);
  }
}

template <typename Use>
void with_function(const ActivationAttributes& attributes, Use&& use) {
  switch (attributes.function) {
    case Activation::relu:
      return use(Relu{});
    case Activation::gelu:
      return attributes.approximate == GeluApproximation::tanh ? use(GeluTanh{}) : use(Gelu{});
    case Activation::silu:
      return use(Silu{});
    case Activation::tanh:
      return use(Tanh{});
    case Activation::sigmoid:
      return use(Sigmoid{});
    case Activation::leaky_relu:
      return use(LeakyRelu{static_cast<float>(attributes.slope)});
    case Activation::relu6:
      return use(Relu6{});
    case Activation::hardswish:
      return use(HardSwish{});
    case Activation::hardsigmoid:
      return use(HardSigmoid{});
  }
  throw InternalError("internal error: an activation of no known function");
}

}  // namespace

void activation_forward(DType type, const ActivationAttributes& attributes, const void* x, void* y, std::int64_t count,
                        Stream stream) {
  with_element_type(type, [&](auto element) {
    with_function(attributes, [&](auto function) {
      launch_elementwise<typename decltype(element)::type>(function, count, stream, y, x);
    });
  });
}

void placed_activation_forward(DType type, const ActivationAttributes& attributes, const void* x, void* y,
                               std::int64_t rows, std::int64_t channels, std::int64_t y_channels, Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_function(attributes, [&]<typename Function>(Function function) {
      with_pack_width<T>(channels | y_channels, {x, y}, [&](auto width) {
        constexpr int n = decltype(width)::value;
        const ChannelTiles tiles = channel_tiles(channels / n, most_activation_lanes);
        const std::int64_t rows_per_block = tiles.rows_per_block(rows);
        launch(placed_activation_kernel<T, n, Function>, tiles.grid(num_blocks(rows, rows_per_block)), tiles.block(),
               stream, function, static_cast<const T*>(x), static_cast<T*>(y), rows, channels, y_channels,
               rows_per_block, tiles.num_tiles);
      });
    });
  });
}

void activation_backward(DType type, const ActivationAttributes& attributes, const void* dy, const void* y_or_x,
                         void* dx, std::int64_t count, Stream stream) {
  with_element_type(type, [&](auto element) {
    with_function(attributes, [&](auto function) {
      launch_elementwise<typename decltype(element)::type>(Backward<decltype(function)>{function}, count, stream, dx,
                                                           dy, y_or_x);
    });
  });
}

}  // namespace trainer::cuda
