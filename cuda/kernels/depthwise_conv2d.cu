#include "cuda/kernels/depthwise_conv2d.h"

#include <utility>

#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

constexpr int depthwise_lanes = 32;
constexpr int most_kernel = static_cast<int>(most_depthwise_kernel);
/// Neighbours of a row that a thread computes together, so that it reads each weight once for them.
constexpr int depthwise_strip = 4;

/// Along one axis: from the image that is read to the one that is written.
struct DepthwiseAxis {
  int from, to, kernel, stride, padding, dilation;
};
struct DepthwiseAxes {
  DepthwiseAxis rows, columns;
};

int depthwise_int(std::int64_t value) {
  require_internal(value <= 0x7FFFFFFF, "a depthwise convolution counts by numbers below 2^31");
  return static_cast<int>(value);
}

DepthwiseAxes depthwise_axes(const DepthwiseShape& s, bool forward) {
  const auto axis = [&](std::size_t i) {
    return DepthwiseAxis{depthwise_int(forward ? s.x[i] : s.y[i]),
                         depthwise_int(forward ? s.y[i] : s.x[i]),
                         depthwise_int(s.kernel[i]),
                         depthwise_int(s.stride[i]),
                         depthwise_int(s.padding[i]),
                         depthwise_int(s.dilation[i])};
  };
  return {axis(0), axis(1)};
}

/// What meets `tap` of the kernel in the elements of what is written from `first` on, one after another.
template <bool forward>
class MetElements {
 public:
  __device__ __forceinline__ MetElements(const DepthwiseAxis& axis, int first, int tap) {
    if (forward) {
      from_ = first * axis.stride - axis.padding + tap * axis.dilation;
      return;
    }
    const int stepped = first + axis.padding - tap * axis.dilation;
    from_ = stepped;
    if (axis.stride == 1) return;
    from_ = stepped / axis.stride;
    behind_ = stepped - from_ * axis.stride;
    if (behind_ < 0) {
      behind_ += axis.stride;
      --from_;
    }
  }

  /// −1: nothing does.
  __device__ __forceinline__ int element(const DepthwiseAxis& axis) const {
    return (forward || behind_ == 0) && from_ >= 0 && from_ < axis.from ? from_ : -1;
  }

  __device__ __forceinline__ void step(const DepthwiseAxis& axis) {
    if (forward) {
      from_ += axis.stride;
    } else if (++behind_ == axis.stride) {
      behind_ = 0;
      ++from_;
    }
  }

 private:
  int from_ = 0;
  int behind_ = 0;  ///< backward: how many elements lie between the one that from_ meets and this one
};

template <bool forward>
__device__ __forceinline__ int met_by(const DepthwiseAxis& axis, int at, int tap) {
  return MetElements<forward>(axis, at, tap).element(axis);
}

/// A pixel of images of height × width, or a strip of them where `width` counts strips.
struct DepthwisePixel {
  int image, row, column;
};
__device__ __forceinline__ DepthwisePixel depthwise_pixel(unsigned index, int height, int width) {
  const unsigned line = index / static_cast<unsigned>(width);
  const unsigned image = line / static_cast<unsigned>(height);
  return {static_cast<int>(image), static_cast<int>(line - image * static_cast<unsigned>(height)),
          static_cast<int>(index - line * static_cast<unsigned>(width))};
}

/// Forward from x to y, else from dy to dx: an element of `to` gathers what the taps of its channel's kernel meet.
/// Packs of more than one channel are for a multiplier of 1. A block first puts its channels' weights into shared
/// memory, a tap's next to each other. Bounds on the blocks of an SM: left alone, ptxas spills for the sake of one
/// more.
template <typename T, int n, bool forward>
__global__ void __launch_bounds__(tile_threads, n == 1 ? 6 : 3)
    depthwise_conv2d_gather_kernel(const T* __restrict__ from, const T* __restrict__ weights,
                                   const T* __restrict__ bias, T* __restrict__ to, bool relu, DepthwiseAxes axes,
                                   int channels, int multiplier, unsigned num_strips, unsigned strips_per_block,
                                   std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  if (n > 1) multiplier = 1;  // known, so that it takes no registers
  using Floats = Pack<float, n>;
  TRAINER_SHARED(Floats, kernels, most_kernel * most_kernel * depthwise_lanes);
  const TilePosition position = tile_position<n>(num_tiles, channels);
  const int num_taps = axes.rows.kernel * axes.columns.kernel;
  const int channel = static_cast<int>(position.channel);
  if (multiplier == 1) {
    const int first = channel - static_cast<int>(threadIdx.x) * n;
    const int width = static_cast<int>(blockDim.x) * n;
    const int count = (width < channels - first ? width : channels - first) * num_taps;
    for (int i = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); i < count; i += tile_threads) {
      const int of_tile = i / num_taps, tap = i - of_tile * num_taps;
      kernels[tap * static_cast<int>(blockDim.x) + of_tile / n].values[of_tile % n] =
          to_float(weights[std::int64_t{first} * num_taps + i]);
    }
  }
  __syncthreads();
  if (!position.active) return;
  const int from_channels = forward ? channels / multiplier : channels * multiplier;
  const int num_sources = forward ? 1 : multiplier;
  const int strips_per_line = (axes.columns.to + depthwise_strip - 1) / depthwise_strip;
  const unsigned begin = static_cast<unsigned>(position.row_group) * strips_per_block;
  const unsigned end = begin + strips_per_block < num_strips ? begin + strips_per_block : num_strips;
  for (unsigned index = begin + threadIdx.y; index < end; index += blockDim.y) {
    const DepthwisePixel at = depthwise_pixel(index, axes.rows.to, strips_per_line);
    const int first_column = at.column * depthwise_strip;
    Floats sums[depthwise_strip]{};
    for (int source = 0; source < num_sources; ++source) {
      const int from_channel = forward ? channel / multiplier : channel * multiplier + source;
      const int kernel = forward ? channel : from_channel;
      for (int i = 0; i < axes.rows.kernel; ++i) {
        const int row = met_by<forward>(axes.rows, at.row, i);
        if (row < 0) continue;
        const T* const line =
            from + (std::int64_t{at.image} * axes.rows.from + row) * axes.columns.from * from_channels + from_channel;
        for (int j = 0; j < axes.columns.kernel; ++j) {
          const int tap = i * axes.columns.kernel + j;
          Floats weight{};
          if (multiplier == 1) {
            weight = kernels[tap * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)];
          } else {
            weight.values[0] = to_float(weights[std::int64_t{kernel} * num_taps + tap]);
          }
          MetElements<forward> met(axes.columns, first_column, j);
          for (int u = 0; u < depthwise_strip; ++u, met.step(axes.columns)) {
            const int column = met.element(axes.columns);
            if (column < 0) continue;
            const Floats values = load_floats<n>(line + std::int64_t{column} * from_channels);
            for (int c = 0; c < n; ++c) sums[u].values[c] += values.values[c] * weight.values[c];
          }
        }
      }
    }
    T* const line_to =
        to + (std::int64_t{at.image} * axes.rows.to + at.row) * axes.columns.to * channels + position.channel;
    Floats added{};
    if (bias != nullptr) added = load_floats<n>(bias + position.channel);
    for (int u = 0; u < depthwise_strip; ++u) {
      if (first_column + u >= axes.columns.to) continue;
      for (int c = 0; c < n; ++c) {
        const float value = sums[u].values[c] + added.values[c];
        sums[u].values[c] = relu && value < 0 ? 0.0f : value;
      }
      store_floats(line_to + std::int64_t{first_column + u} * channels, sums[u]);
    }
  }
}

/// The sums of x · dy over one part of the pixels, for `height` rows of the kernel from one of `num_row_sets` on and up
/// to `width` columns: sums (parts, taps, channels).
template <typename T, int n, int height, int width>
__global__ void __launch_bounds__(tile_threads)
    depthwise_conv2d_weight_sums_kernel(const T* __restrict__ dy, const T* __restrict__ x, float* __restrict__ sums,
                                        DepthwiseAxes axes, int channels, int multiplier, unsigned num_pixels,
                                        unsigned pixels_per_part, int num_row_sets, std::int64_t num_tiles) {
  wait_for_earlier_kernels();
  using Floats = Pack<float, n>;
  TRAINER_SHARED(Floats, upper, tile_threads / 2);
  const TilePosition position = tile_position<n>(num_tiles, channels);
  const auto part = static_cast<unsigned>(position.row_group) / static_cast<unsigned>(num_row_sets);
  const int first_row = static_cast<int>(static_cast<unsigned>(position.row_group) - part * num_row_sets) * height;
  const int x_channels = channels / multiplier;
  const int x_channel = static_cast<int>(position.channel) / multiplier;
  Floats products[height][width]{};
  if (position.active) {
    const unsigned begin = part * pixels_per_part;
    const unsigned end = begin + pixels_per_part < num_pixels ? begin + pixels_per_part : num_pixels;
    for (unsigned pixel = begin + threadIdx.y; pixel < end; pixel += blockDim.y) {
      const DepthwisePixel at = depthwise_pixel(pixel, axes.rows.to, axes.columns.to);
      const Floats gradient = load_floats<n>(dy + std::int64_t{pixel} * channels + position.channel);
      for (int i = 0; i < height; ++i) {
        const int row = met_by<true>(axes.rows, at.row, first_row + i);
        if (row < 0) continue;
        const T* const line =
            x + (std::int64_t{at.image} * axes.rows.from + row) * axes.columns.from * x_channels + x_channel;
        for (int j = 0; j < width; ++j) {
          const int column = met_by<true>(axes.columns, at.column, j);
          if (column < 0 || j >= axes.columns.kernel) continue;
          const Floats values = load_floats<n>(line + std::int64_t{column} * x_channels);
          for (int c = 0; c < n; ++c) products[i][j].values[c] += values.values[c] * gradient.values[c];
        }
      }
    }
  }
  for (int i = 0; i < height; ++i) {
    for (int j = 0; j < width; ++j) {
      Floats& sum = products[i][j];
      for (unsigned half_rows = blockDim.y / 2; half_rows > 0; half_rows /= 2) {
        if (threadIdx.y >= half_rows && threadIdx.y < 2 * half_rows) {
          upper[(threadIdx.y - half_rows) * blockDim.x + threadIdx.x] = sum;
        }
        __syncthreads();
        if (threadIdx.y < half_rows) {
          const Floats& other = upper[threadIdx.y * blockDim.x + threadIdx.x];
          for (int c = 0; c < n; ++c) sum.values[c] += other.values[c];
        }
        __syncthreads();
      }
      if (threadIdx.y > 0 || !position.active || j >= axes.columns.kernel) continue;
      const int num_taps = axes.rows.kernel * axes.columns.kernel;
      const int tap = (first_row + i) * axes.columns.kernel + j;
      store_floats(sums + (std::int64_t{part} * num_taps + tap) * channels + position.channel, sum);
    }
  }
}

/// dW (channels, taps) of the sums of all parts.
template <typename T>
__global__ void __launch_bounds__(tile_threads)
    depthwise_conv2d_combine_kernel(const float* __restrict__ sums, T* __restrict__ dweights, int num_parts,
                                    int num_taps, int channels) {
  wait_for_earlier_kernels();
  const std::int64_t index = std::int64_t{blockIdx.x} * tile_threads + threadIdx.x;
  const std::int64_t count = std::int64_t{num_taps} * channels;
  if (index >= count) return;
  double sum = 0;
  for (int part = 0; part < num_parts; ++part) sum += static_cast<double>(sums[part * count + index]);
  const std::int64_t tap = index / channels, channel = index - tap * channels;
  dweights[channel * num_taps + tap] = from_float<T>(static_cast<float>(sum));
}

/// Calls function(width of a pack): one channel where there is a multiplier.
template <typename T, typename Function>
void with_depthwise_width(const DepthwiseShape& shape, std::initializer_list<const void*> addresses,
                          Function&& function) {
  if (shape.multiplier == 1) return with_pack_width<T>(shape.channels, addresses, std::forward<Function>(function));
  function(std::integral_constant<int, 1>{});
}

template <bool forward>
void start_gather(DType type, const void* from, const void* weights, const void* bias, void* to, bool relu,
                  const DepthwiseShape& shape, Stream stream) {
  const std::int64_t channels = forward ? shape.y_channels() : shape.channels;
  const std::array<std::int64_t, 2>& size = forward ? shape.y : shape.x;
  const std::int64_t num_strips = shape.images * size[0] * num_blocks(size[1], depthwise_strip);
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_depthwise_width<T>(shape, {from, bias, to}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(channels / n, depthwise_lanes);
      const std::int64_t strips_per_block = tiles.rows_per_block(num_strips);
      launch(depthwise_conv2d_gather_kernel<T, n, forward>, tiles.grid(num_blocks(num_strips, strips_per_block)),
             tiles.block(), stream, static_cast<const T*>(from), static_cast<const T*>(weights),
             static_cast<const T*>(bias), static_cast<T*>(to), relu, depthwise_axes(shape, forward),
             depthwise_int(channels), depthwise_int(shape.multiplier), static_cast<unsigned>(depthwise_int(num_strips)),
             static_cast<unsigned>(strips_per_block), tiles.num_tiles);
    });
  });
}

}  // namespace

void depthwise_conv2d_forward(DType type, const void* x, const void* weights, const void* bias, void* y, bool relu,
                              const DepthwiseShape& shape, Stream stream) {
  start_gather<true>(type, x, weights, bias, y, relu, shape, stream);
}

void depthwise_conv2d_input_gradient(DType type, const void* dy, const void* weights, void* dx,
                                     const DepthwiseShape& shape, Stream stream) {
  start_gather<false>(type, dy, weights, nullptr, dx, false, shape, stream);
}

void depthwise_conv2d_weight_gradient(DType type, const void* dy, const void* x, void* dweights,
                                      const DepthwiseShape& shape, void* workspace, Stream stream) {
  const std::int64_t channels = shape.y_channels();
  const RowParts parts = depthwise_parts(shape);
  auto* const sums = static_cast<float*>(workspace);
  const bool is_small = shape.kernel[0] == 3 && shape.kernel[1] == 3;
  const std::int64_t num_row_sets = is_small ? 1 : shape.kernel[0];
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_depthwise_width<T>(shape, {dy, x, sums}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const ChannelTiles tiles = channel_tiles(channels / n, depthwise_lanes);
      launch(is_small ? depthwise_conv2d_weight_sums_kernel<T, n, 3, 3>
                      : depthwise_conv2d_weight_sums_kernel<T, n, 1, most_kernel>,
             tiles.grid(parts.num_parts * num_row_sets), tiles.block(), stream, static_cast<const T*>(dy),
             static_cast<const T*>(x), sums, depthwise_axes(shape, true), depthwise_int(channels),
             depthwise_int(shape.multiplier), static_cast<unsigned>(depthwise_int(shape.y_pixels())),
             static_cast<unsigned>(parts.rows_per_part), depthwise_int(num_row_sets), tiles.num_tiles);
    });
    launch(depthwise_conv2d_combine_kernel<T>, grid_of(num_blocks(shape.taps() * channels, tile_threads)),
           {tile_threads}, stream, static_cast<const float*>(sums), static_cast<T*>(dweights),
           depthwise_int(parts.num_parts), depthwise_int(shape.taps()), depthwise_int(channels));
  });
}

}  // namespace trainer::cuda
