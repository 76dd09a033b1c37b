#include "cuda/kernels/average_weights.h"

#include "cuda/kernels/pack.h"
#include "cuda/kernels/tensor_table.cuh"
#include "cuda/launch/launch.h"

namespace trainer::cuda {

namespace {

/// The table's addresses: weight, average.
template <int capacity>
__global__ void __launch_bounds__(table_threads)
    average_weights_kernel(TensorTable<2, capacity> table, const StepScalars* scalars) {
  wait_for_earlier_kernels();
  const auto share = static_cast<float>(scalars->average_share);
  if (share == 0) return;
  const TensorChunk chunk = chunk_of_block(table);
  const auto* const weight = static_cast<const float*>(table.addresses[0][chunk.tensor]);
  auto* const average = static_cast<float*>(table.addresses[1][chunk.tensor]);
  const bool aligned = (reinterpret_cast<std::uintptr_t>(weight) | reinterpret_cast<std::uintptr_t>(average)) % 16 == 0;
  for_each_element(chunk, aligned, [&](auto width, std::int64_t at) {
    constexpr int n = decltype(width)::value;
    const Pack<float, n> w = load_floats<n>(weight + at);
    Pack<float, n> a = load_floats<n>(average + at);
    // Exactly the weights where they are copied, whatever the averages held.
    for (int i = 0; i < n; ++i)
      a.values[i] = share == 1 ? w.values[i] : a.values[i] + share * (w.values[i] - a.values[i]);
    store_floats(average + at, a);
  });
}

}  // namespace

void average_weights(std::span<const AveragedTensor> tensors, const StepScalars* scalars, Stream stream) {
  const auto entry = [&](std::int64_t i) {
    const AveragedTensor& tensor = tensors[static_cast<std::size_t>(i)];
    return TableEntry<2>{{const_cast<float*>(tensor.weight), tensor.average}, tensor.count};
  };
  for_each_table<2>(std::ssize(tensors), entry,
                    [&]<int capacity>(const TensorTable<2, capacity>& table, std::int64_t blocks) {
                      launch(average_weights_kernel<capacity>, Dim3{static_cast<unsigned>(blocks)}, {table_threads},
                             stream, table, scalars);
                    });
}

}  // namespace trainer::cuda
