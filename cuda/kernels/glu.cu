#include "cuda/kernels/glu.h"

#include "cuda/kernels/activation_functions.cuh"
#include "cuda/kernels/channel_tiles.h"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {
namespace {

constexpr int most_glu_lanes = 128;

/// What both kernels share: how a launch covers the rows.
struct GluRows {
  std::int64_t rows, columns, row_elements, rows_per_block, num_tiles;
};

template <typename T, int n, typename Function>
__global__ void __launch_bounds__(tile_threads)
    glu_forward_kernel(Function function, GluRows of, const T* gate, const T* up, T* y) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(of.num_tiles, of.columns);
  if (!at.active) return;
  const auto [begin, end] = at.rows_of_group(of.rows_per_block, of.rows);
  for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
    Pack<float, n> values = load_floats<n>(gate + row * of.row_elements + at.channel);
    const Pack<float, n> ups = load_floats<n>(up + row * of.row_elements + at.channel);
    for (int i = 0; i < n; ++i) values.values[i] = function(values.values[i]) * ups.values[i];
    store_floats(y + row * of.columns + at.channel, values);
  }
}

template <typename T, int n, typename Function>
__global__ void __launch_bounds__(tile_threads)
    glu_backward_kernel(Function function, GluRows of, const T* dy, const T* gate, const T* up, T* dgate, T* dup) {
  wait_for_earlier_kernels();
  const TilePosition at = tile_position<n>(of.num_tiles, of.columns);
  if (!at.active) return;
  const auto [begin, end] = at.rows_of_group(of.rows_per_block, of.rows);
  for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
    const std::int64_t place = row * of.row_elements + at.channel;
    const Pack<float, n> dys = load_floats<n>(dy + row * of.columns + at.channel);
    Pack<float, n> gates = load_floats<n>(gate + place), ups = load_floats<n>(up + place);
    for (int i = 0; i < n; ++i) {
      const float v = gates.values[i];
      gates.values[i] = dys.values[i] * ups.values[i] * function.slope(v);
      ups.values[i] = dys.values[i] * function(v);
    }
    store_floats(dgate + place, gates);
    store_floats(dup + place, ups);
  }
}

/// Calls use(element type, pack width, function, GluRows, grid, block).
template <typename Use>
void with_glu(DType type, const GluAttributes& attributes, const GluLayout& layout,
              std::initializer_list<const void*> addresses, Use&& use) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_function({.function = attributes.function, .approximate = attributes.approximate}, [&](auto function) {
      with_pack_width<T>(layout.columns | layout.row_elements, addresses, [&](auto width) {
        const ChannelTiles tiles = channel_tiles(layout.columns / width, most_glu_lanes);
        const std::int64_t rows_per_block = tiles.rows_per_block(layout.rows);
        const GluRows rows{layout.rows, layout.columns, layout.row_elements, rows_per_block, tiles.num_tiles};
        use(ElementType<T>{}, width, function, rows, tiles.grid(num_blocks(layout.rows, rows_per_block)),
            tiles.block());
      });
    });
  });
}

}  // namespace

void glu_forward(DType type, const GluAttributes& attributes, const GluLayout& layout, const void* gate, const void* up,
                 void* y, Stream stream) {
  with_glu(type, attributes, layout, {gate, up, y},
           [&]<typename T, typename Function>(ElementType<T>, auto width, Function function, const GluRows& rows,
                                              Dim3 grid, Dim3 block) {
             launch(glu_forward_kernel<T, decltype(width)::value, Function>, grid, block, stream, function, rows,
                    static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<T*>(y));
           });
}

void glu_backward(DType type, const GluAttributes& attributes, const GluLayout& layout, const void* dy,
                  const void* gate, const void* up, void* dgate, void* dup, Stream stream) {
  with_glu(type, attributes, layout, {dy, gate, up, dgate, dup},
           [&]<typename T, typename Function>(ElementType<T>, auto width, Function function, const GluRows& rows,
                                              Dim3 grid, Dim3 block) {
             launch(glu_backward_kernel<T, decltype(width)::value, Function>, grid, block, stream, function, rows,
                    static_cast<const T*>(dy), static_cast<const T*>(gate), static_cast<const T*>(up),
                    static_cast<T*>(dgate), static_cast<T*>(dup));
           });
}

}  // namespace trainer::cuda
