#include "cuda/kernels/dropout.h"

#include "cuda/kernels/elementwise.cuh"
#include "engine/philox.h"

namespace trainer::cuda {
namespace {

constexpr int dropout_words = 4;  // of one Philox block, drawn by one thread

/// `packed`: x and y are aligned to `dropout_words` elements.
template <typename T, bool packed>
__global__ void __launch_bounds__(elementwise_threads)
    dropout_kernel(std::uint32_t philox_stream, std::uint32_t threshold, float scale, const StepScalars* scalars,
                   const T* x, T* y, std::int64_t of_sample, std::int64_t count) {
  wait_for_earlier_kernels();
  const std::int64_t block = std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x;
  const std::int64_t first = block * dropout_words;
  if (first >= count) return;
  const PhiloxStream philox{scalars->seed, philox_stream, scalars->pass};
  // The numbers of samples before this rank's may end within a block of them.
  const std::int64_t drawn_first = first + scalars->first_sample * of_sample;
  const auto skipped = static_cast<int>(drawn_first % dropout_words);
  const auto drawn = philox.words(static_cast<std::uint64_t>(drawn_first / dropout_words));
  const auto next = skipped > 0 ? philox.words(static_cast<std::uint64_t>(drawn_first / dropout_words + 1)) : drawn;
  const auto drop = [&](float value, int i) {
    const int at = i + skipped;
    const std::uint32_t word =
        at < dropout_words ? drawn[static_cast<std::size_t>(at)] : next[static_cast<std::size_t>(at - dropout_words)];
    return (word >> 8) >= threshold ? value * scale : 0.0f;
  };
  if (packed && first + dropout_words <= count) {
    Pack<float, dropout_words> values = load_floats<dropout_words>(x + first);
    for (int i = 0; i < dropout_words; ++i) values.values[i] = drop(values.values[i], i);
    store_floats(y + first, values);
    return;
  }
  for (int i = 0; i < dropout_words && first + i < count; ++i)
    y[first + i] = from_float<T>(drop(to_float(x[first + i]), i));
}

/// A thread has the elements of a row that one block of four words is for.
template <typename T>
__global__ void __launch_bounds__(elementwise_threads)
    dropout_of_part_kernel(std::uint32_t philox_stream, std::uint32_t threshold, float scale,
                           const StepScalars* scalars, const T* x, T* y, DropoutPart part, std::int64_t rows,
                           std::int64_t blocks_of_row) {
  wait_for_earlier_kernels();
  const std::int64_t thread = std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x;
  const std::int64_t row = thread / blocks_of_row;
  if (row >= rows) return;
  const std::int64_t row_of_all = scalars->first_sample * part.sample_rows + part.first_row + row;
  const std::int64_t first = row_of_all * part.all_columns + part.first_column;
  const std::int64_t block = first / dropout_words + thread % blocks_of_row;
  const auto words = PhiloxStream{scalars->seed, philox_stream, scalars->pass}.words(static_cast<std::uint64_t>(block));
  for (int i = 0; i < dropout_words; ++i) {
    const std::int64_t column = block * dropout_words + i - first;
    if (column < 0 || column >= part.own_columns) continue;
    const std::int64_t at = row * part.own_columns + column;
    y[at] = from_float<T>((words[static_cast<std::size_t>(i)] >> 8) >= threshold ? to_float(x[at]) * scale : 0.0f);
  }
}

}  // namespace

void dropout_of_part(DType type, std::uint32_t philox_stream, std::uint32_t threshold, float scale,
                     const StepScalars* scalars, const void* x, void* y, const DropoutPart& part, std::int64_t rows,
                     Stream stream) {
  // As many as a row can touch, wherever it begins within one.
  const std::int64_t blocks_of_row = (part.own_columns + 2 * (dropout_words - 1)) / dropout_words;
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    launch(dropout_of_part_kernel<T>, elementwise_grid(rows * blocks_of_row, 1), {elementwise_threads}, stream,
           philox_stream, threshold, scale, scalars, static_cast<const T*>(x), static_cast<T*>(y), part, rows,
           blocks_of_row);
  });
}

void dropout(DType type, std::uint32_t philox_stream, std::uint32_t threshold, float scale, const StepScalars* scalars,
             const void* x, void* y, std::int64_t of_sample, std::int64_t count, Stream stream) {
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const auto aligned = [](const void* address) {
      return reinterpret_cast<std::uintptr_t>(address) % alignof(Pack<T, dropout_words>) == 0;
    };
    launch(aligned(x) && aligned(y) ? dropout_kernel<T, true> : dropout_kernel<T, false>,
           elementwise_grid(count, dropout_words), {elementwise_threads}, stream, philox_stream, threshold, scale,
           scalars, static_cast<const T*>(x), static_cast<T*>(y), of_sample, count);
  });
}

}  // namespace trainer::cuda
