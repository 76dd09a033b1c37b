#include "cuda/kernels/embedding.h"

#include "cuda/kernels/grid.h"
#include "cuda/kernels/pack.h"

namespace trainer::cuda {

namespace {

constexpr int lookup_threads = 256;

/// Threads along x are lanes of a row, those along y rows.
struct LookupBlock {
  int lanes;
  Dim3 block() const { return {static_cast<unsigned>(lanes), static_cast<unsigned>(lookup_threads / lanes)}; }
  Dim3 grid(std::int64_t rows) const { return grid_of(num_blocks(rows, lookup_threads / lanes)); }
};

/// As many lanes as a row has packs, at most a block.
LookupBlock lookup_block(std::int64_t packs) {
  int lanes = 1;
  while (lanes < packs && lanes < lookup_threads) lanes *= 2;
  return {lanes};
}

__device__ __forceinline__ std::int64_t row_of_lookup() { return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

template <typename T, typename Table, int n>
__global__ void __launch_bounds__(lookup_threads)
    embedding_forward_kernel(const std::int32_t* __restrict__ indices, const Table* __restrict__ table,
                             T* __restrict__ y, EmbeddingShape shape) {
  wait_for_earlier_kernels();
  const std::int64_t place = row_of_lookup();
  if (place >= shape.places) return;
  const std::int64_t index = indices[place], own = index - shape.first;
  const bool is_here = own >= 0 && own < shape.num, is_none = index < 0 || index >= shape.all;
  for (std::int64_t column = threadIdx.x * n; column < shape.dim; column += blockDim.x * n) {
    Pack<float, n> row;
    for (int i = 0; i < n; ++i) row.values[i] = is_none ? nanf("") : 0.0f;
    if (is_here) row = load_floats<n>(table + own * shape.dim + column);
    store_floats(y + place * shape.dim + column, row);
  }
}

// A block owns some rows of dtable and some columns, whose sums it holds in shared memory: Note [Rows of an embedding]
// in engine/cpu/embedding_kernel.cpp. It looks at 1024 indices at a time and lists those that are its own in order; a
// thread then adds what its column has of them, a few loads ahead.
constexpr int embedding_threads = 256, embedding_sums = 8192;
constexpr int indices_of_thread = 4, indices_at_once = embedding_threads * indices_of_thread;
constexpr int gradients_ahead = 8;
constexpr std::int64_t enough_embedding_blocks = 528;  // four for each processor of the largest GPUs

/// The sum of `value` over the block's threads before this one, and of all.
struct PlaceInList {
  int first = 0, total = 0;
};
__device__ __forceinline__ PlaceInList place_in_list(int value, int thread) {
  TRAINER_SHARED(int, of_warp, embedding_threads / warp_size);
  const int lane = thread % warp_size, warp = thread / warp_size;
  int up_to = value;
  for (int distance = 1; distance < warp_size; distance *= 2) {
    const int before = shuffle(up_to, lane >= distance ? lane - distance : lane);
    if (lane >= distance) up_to += before;
  }
  if (lane == warp_size - 1) of_warp[warp] = up_to;
  __syncthreads();
  PlaceInList place{up_to - value, 0};
  for (int other = 0; other < embedding_threads / warp_size; ++other) {
    if (other < warp) place.first += of_warp[other];
    place.total += of_warp[other];
  }
  return place;
}

template <typename T, typename Table>
__global__ void __launch_bounds__(embedding_threads)
    embedding_backward_kernel(const T* __restrict__ dy, const std::int32_t* __restrict__ indices,
                              Table* __restrict__ dtable, bool adds, EmbeddingShape shape, int rows_of_block,
                              std::int64_t num_row_blocks) {
  wait_for_earlier_kernels();
  const std::int64_t places = shape.places, dim = shape.dim;
  TRAINER_SHARED(float, sums, embedding_sums);
  TRAINER_SHARED(std::int32_t, listed_rows, indices_at_once);
  TRAINER_SHARED(std::int32_t, listed_places, indices_at_once);
  const int columns = static_cast<int>(blockDim.x), row_groups = static_cast<int>(blockDim.y);
  const int lane = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
  const int thread = group * columns + lane;
  const std::int64_t first_row = std::int64_t{blockIdx.x} % num_row_blocks * rows_of_block;
  const std::int64_t last_row = first_row + rows_of_block < shape.num ? first_row + rows_of_block : shape.num;
  const std::int64_t first_index = shape.first + first_row, last_index = shape.first + last_row;
  const std::int64_t column = std::int64_t{blockIdx.x} / num_row_blocks * columns + lane;
  const bool has_column = column < dim;
  // A thread adds to the sums of its column and of every row_groups-th row alone.
  for (int row = group; row < rows_of_block; row += row_groups) sums[row * columns + lane] = 0;
  bool has_any = false;
  for (std::int64_t base = 0; base < places; base += indices_at_once) {
    std::int32_t rows[indices_of_thread];
    int count = 0;
    for (int i = 0; i < indices_of_thread; ++i) {
      const std::int64_t place = base + thread * indices_of_thread + i;
      const std::int64_t index = place < places ? indices[place] : -1;
      const bool is_own = index >= first_index && index < last_index;
      rows[i] = is_own ? static_cast<std::int32_t>(index - first_index) : -1;
      count += is_own ? 1 : 0;
    }
    const PlaceInList at = place_in_list(count, thread);
    int next = at.first;
    for (int i = 0; i < indices_of_thread; ++i) {
      if (rows[i] < 0) continue;
      listed_rows[next] = rows[i];
      listed_places[next++] = thread * indices_of_thread + i;
    }
    __syncthreads();
    has_any = has_any || at.total > 0;
    if (has_column) {
      for (int first = 0; first < at.total; first += gradients_ahead) {
        int own_rows[gradients_ahead];
        float gradients[gradients_ahead];
        for (int u = 0; u < gradients_ahead; ++u) {
          const int row = first + u < at.total ? listed_rows[first + u] : -1;
          own_rows[u] = row >= 0 && row % row_groups == group ? row : -1;
          gradients[u] = own_rows[u] >= 0 ? to_float(dy[(base + listed_places[first + u]) * dim + column]) : 0.0f;
        }
        for (int u = 0; u < gradients_ahead; ++u) {
          if (own_rows[u] >= 0) sums[own_rows[u] * columns + lane] += gradients[u];
        }
      }
    }
    __syncthreads();  // the list is written anew
  }
  if (!has_column || (adds && !has_any)) return;
  for (int row = group; row < last_row - first_row; row += row_groups) {
    Table* const to = dtable + (first_row + row) * dim + column;
    const float sum = sums[row * columns + lane];
    *to = from_float<Table>(adds ? sum + to_float(*to) : sum);
  }
}

template <typename T, int n>
__global__ void __launch_bounds__(lookup_threads)
    position_embedding_forward_kernel(const T* x, const float* __restrict__ table,
                                      const std::int32_t* __restrict__ indices, T* y, std::int64_t rows,
                                      std::int64_t places, std::int64_t channels, std::int64_t length) {
  wait_for_earlier_kernels();
  const std::int64_t row = row_of_lookup();
  if (row >= rows) return;
  const std::int64_t place = indices != nullptr ? indices[row] : row % places;
  const bool is_there = place >= 0 && place < length;
  for (std::int64_t channel = threadIdx.x * n; channel < channels; channel += blockDim.x * n) {
    Pack<float, n> values = load_floats<n>(x + row * channels + channel);
    Pack<float, n> added;
    for (int i = 0; i < n; ++i) added.values[i] = NAN;
    if (is_there) added = load_floats<n>(table + place * channels + channel);
    for (int i = 0; i < n; ++i) values.values[i] += added.values[i];
    store_floats(y + row * channels + channel, values);
  }
}

constexpr int samples_ahead = 4;

template <typename T, int n>
__global__ void __launch_bounds__(lookup_threads)
    position_embedding_backward_kernel(const T* __restrict__ dy, float* __restrict__ dtable, std::int64_t samples,
                                       std::int64_t places, std::int64_t channels, std::int64_t length) {
  wait_for_earlier_kernels();
  const std::int64_t place = row_of_lookup();
  if (place >= length) return;
  const std::int64_t step = places * channels;
  for (std::int64_t channel = threadIdx.x * n; channel < channels; channel += blockDim.x * n) {
    Pack<float, n> sum{};
    const T* const first = dy + place * channels + channel;
    for (std::int64_t sample = 0; place < places && sample < samples; sample += samples_ahead) {
      Pack<float, n> gradients[samples_ahead]{};
      for (int u = 0; u < samples_ahead; ++u) {
        if (sample + u < samples) gradients[u] = load_floats<n>(first + (sample + u) * step);
      }
      for (int u = 0; u < samples_ahead; ++u) {
        if (sample + u >= samples) break;
        for (int i = 0; i < n; ++i) sum.values[i] += gradients[u].values[i];
      }
    }
    store_floats(dtable + place * channels + channel, sum);
  }
}

/// Calls function(ElementType<T>{}, ElementType<Table>{}) where Table is T or f32.
template <typename Function>
void with_table_type(DType type, DType table_type, Function&& function) {
  with_element_type(type, [&]<typename T>(ElementType<T> element) {
    if (table_type == type) return function(element, element);
    require_internal(table_type == DType::f32, "a table is of the type of what it is read into, or f32");
    function(element, ElementType<float>{});
  });
}

}  // namespace

void embedding_forward(DType type, DType table_type, const std::int32_t* indices, const void* table, void* y,
                       const EmbeddingShape& shape, Stream stream) {
  with_table_type(type, table_type, [&]<typename T, typename Table>(ElementType<T>, ElementType<Table>) {
    with_pack_width<T>(shape.dim, {table, y}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const LookupBlock lookup = lookup_block(shape.dim / n);
      launch(embedding_forward_kernel<T, Table, n>, lookup.grid(shape.places), lookup.block(), stream, indices,
             static_cast<const Table*>(table), static_cast<T*>(y), shape);
    });
  });
}

void embedding_backward(DType type, DType table_type, const void* dy, const std::int32_t* indices, void* dtable,
                        bool adds, const EmbeddingShape& shape, Stream stream) {
  int columns = warp_size;
  while (columns < shape.dim && columns < embedding_threads) columns *= 2;
  const int row_groups = embedding_threads / columns;
  const std::int64_t column_blocks = num_blocks(shape.dim, columns);
  // Fewer rows where the table is small, so that all of the device has some.
  int rows = embedding_sums / columns;
  while (rows > row_groups && num_blocks(shape.num, rows) * column_blocks < enough_embedding_blocks) rows /= 2;
  const std::int64_t row_blocks = num_blocks(shape.num, rows);
  with_table_type(type, table_type, [&]<typename T, typename Table>(ElementType<T>, ElementType<Table>) {
    launch(embedding_backward_kernel<T, Table>, grid_of(row_blocks * column_blocks),
           {static_cast<unsigned>(columns), static_cast<unsigned>(row_groups)}, stream, static_cast<const T*>(dy),
           indices, static_cast<Table*>(dtable), adds, shape, rows, row_blocks);
  });
}

void position_embedding_forward(DType type, const void* x, const float* table, const std::int32_t* indices, void* y,
                                const PositionEmbeddingShape& shape, Stream stream) {
  const std::int64_t rows = shape.samples * shape.places;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {x, table, y}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const LookupBlock lookup = lookup_block(shape.channels / n);
      launch(position_embedding_forward_kernel<T, n>, lookup.grid(rows), lookup.block(), stream,
             static_cast<const T*>(x), table, indices, static_cast<T*>(y), rows, shape.places, shape.channels,
             shape.length);
    });
  });
}

void position_embedding_backward(DType type, const void* dy, float* dtable, const PositionEmbeddingShape& shape,
                                 Stream stream) {
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {dy, dtable}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const LookupBlock lookup = lookup_block(shape.channels / n);
      launch(position_embedding_backward_kernel<T, n>, lookup.grid(shape.length), lookup.block(), stream,
             static_cast<const T*>(dy), dtable, shape.samples, shape.places, shape.channels, shape.length);
    });
  });
}

}  // namespace trainer::cuda
