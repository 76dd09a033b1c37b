#include "cuda/kernels/fill_zero.h"

#include "cuda/kernels/pack.h"
#include "cuda/kernels/tensor_table.cuh"
#include "cuda/launch/launch.h"

namespace trainer::cuda {

namespace {

template <typename T, int capacity>
__global__ void __launch_bounds__(table_threads) fill_zero_kernel(TensorTable<1, capacity> table) {
  wait_for_earlier_kernels();
  const TensorChunk chunk = chunk_of_block(table);
  auto* const data = static_cast<T*>(table.addresses[0][chunk.tensor]);
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  for_each_element(chunk, aligned, [&](auto width, std::int64_t at) {
    constexpr int n = decltype(width)::value;
    store_floats(data + at, Pack<float, n>{});
  });
}

}  // namespace

void fill_zero(DType type, std::span<const ZeroedTensor> tensors, Stream stream) {
  const auto entry = [&](std::int64_t i) {
    const ZeroedTensor& tensor = tensors[static_cast<std::size_t>(i)];
    return TableEntry<1>{{tensor.data}, tensor.count};
  };
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    for_each_table<1>(
        std::ssize(tensors), entry, [&]<int capacity>(const TensorTable<1, capacity>& table, std::int64_t blocks) {
          launch(fill_zero_kernel<T, capacity>, Dim3{static_cast<unsigned>(blocks)}, {table_threads}, stream, table);
        });
  });
}

}  // namespace trainer::cuda
