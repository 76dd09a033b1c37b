#include "cuda/kernels/optimizer_update.h"

#include "cuda/kernels/pack.h"
#include "cuda/kernels/tensor_table.cuh"
#include "cuda/kernels/update_of_types.h"
#include "cuda/kernels/update_rule.cuh"

namespace trainer::cuda {

namespace {

__device__ __forceinline__ bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

/// Everything is f32. The table's addresses: weight, gradient, states.
template <typename Rule, int num_states, int capacity>
__global__ void __launch_bounds__(table_threads)
    update_kernel(TensorTable<2 + num_states, capacity> table, UpdateOperands operands, Rule rule) {
  wait_for_earlier_kernels();
  if (is_refused(operands)) return;
  const auto s = scalars_of(operands, rule);
  const TensorChunk chunk = chunk_of_block(table);
  auto* const weight = static_cast<float*>(table.addresses[0][chunk.tensor]);
  const auto* const gradient = static_cast<const float*>(table.addresses[1][chunk.tensor]);
  float* states[2] = {nullptr, nullptr};
  bool aligned = is_aligned(weight) && is_aligned(gradient);
  for (int state = 0; state < num_states; ++state) {
    states[state] = static_cast<float*>(table.addresses[2 + state][chunk.tensor]);
    aligned = aligned && is_aligned(states[state]);
  }
  LostWeights lost;
  for_each_element(chunk, aligned, [&](auto width, std::int64_t at) {
    constexpr int n = decltype(width)::value;
    Pack<float, n> w = load_floats<n>(weight + at);
    const Pack<float, n> g = load_floats<n>(gradient + at);
    [[maybe_unused]] Pack<float, n> first, second;
    if constexpr (num_states > 0) first = load_floats<n>(states[0] + at);
    if constexpr (num_states > 1) second = load_floats<n>(states[1] + at);
    for (int i = 0; i < n; ++i) {
      if constexpr (num_states == 0) update_element(s, w.values[i], g.values[i]);
      if constexpr (num_states == 1) update_element(s, w.values[i], g.values[i], first.values[i]);
      if constexpr (num_states == 2) update_element(s, w.values[i], g.values[i], first.values[i], second.values[i]);
      lost.look_at(w.values[i]);
    }
    if constexpr (num_states > 0) store_floats(states[0] + at, first);
    if constexpr (num_states > 1) store_floats(states[1] + at, second);
    store_floats(weight + at, w);
  });
  lost.tell(operands);
}

template <typename Rule, int num_states>
void update_all(const UpdateOperands& operands, std::span<const UpdateTensor> tensors, const Rule& rule,
                Stream stream) {
  const auto entry = [&](std::int64_t i) {
    const UpdateTensor& tensor = tensors[static_cast<std::size_t>(i)];
    TableEntry<2 + num_states> result{{tensor.weight, const_cast<void*>(tensor.gradient)}, tensor.count};
    for (int state = 0; state < num_states; ++state)
      result.addresses[static_cast<std::size_t>(2 + state)] = tensor.states[state];
    return result;
  };
  for_each_table<2 + num_states>(
      std::ssize(tensors), entry,
      [&]<int capacity>(const TensorTable<2 + num_states, capacity>& table, std::int64_t blocks) {
        launch(update_kernel<Rule, num_states, capacity>, Dim3{static_cast<unsigned>(blocks)}, {table_threads}, stream,
               table, operands, rule);
      });
}

}  // namespace

void sgd_update(const UpdateTypes& types, const UpdateOperands& operands, std::span<const UpdateTensor> tensors,
                const SgdRule& rule, Stream stream) {
  if (!types.are_all_f32()) return update_of_types(types, operands, tensors, rule, stream);
  if (rule.momentum > 0) {
    update_all<SgdRule, 1>(operands, tensors, rule, stream);
  } else {
    update_all<SgdRule, 0>(operands, tensors, rule, stream);
  }
}

void adam_update(const UpdateTypes& types, const UpdateOperands& operands, std::span<const UpdateTensor> tensors,
                 const AdamRule& rule, Stream stream) {
  if (!types.are_all_f32()) return update_of_types(types, operands, tensors, rule, stream);
  update_all<AdamRule, 2>(operands, tensors, rule, stream);
}

}  // namespace trainer::cuda
