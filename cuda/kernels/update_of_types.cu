#include "cuda/kernels/update_of_types.h"

#include "cuda/kernels/moment_codes.cuh"
#include "cuda/kernels/pack.h"
#include "cuda/kernels/tensor_table.cuh"
#include "cuda/kernels/update_rule.cuh"
#include "engine/stochastic_rounding.h"

namespace trainer::cuda {

namespace {

/// Elements of a thread: those that one block of Philox rounds, and a lane's of a block of 8-bit moments.
constexpr int lane_elements = 8;
static_assert(lane_elements == rounding_elements && lane_elements == moment_lane);
static_assert(chunk_elements % (lane_elements * table_threads) == 0);

using Lane = Pack<float, lane_elements>;

/// The address of every tensor that an element may have; those of states follow.
enum TensorAddress : int { weight_address, gradient_address, copy_address, first_state_address };

template <typename T>
__device__ __forceinline__ bool is_pack(const T* address, int size) {
  return size == lane_elements && reinterpret_cast<std::uintptr_t>(address) % sizeof(Pack<T, lane_elements>) == 0;
}

template <typename T>
__device__ __forceinline__ Lane load_lane(const T* from, int size) {
  if (is_pack(from, size)) return load_floats<lane_elements>(from);
  Lane lane;
  for (int i = 0; i < lane_elements; ++i) lane.values[i] = i < size ? to_float(from[i]) : 0.0f;
  return lane;
}
template <typename T>
__device__ __forceinline__ void store_lane(T* to, const Lane& lane, int size) {
  if (is_pack(to, size)) return store_floats(to, lane);
  for (int i = 0; i < lane_elements; ++i)
    if (i < size) to[i] = from_float<T>(lane.values[i]);
}

// The types are the same for a whole launch: the branches cost nothing beside the memory.
__device__ __forceinline__ Lane load_lane(DType type, const void* from, std::int64_t at, int size) {
  if (type == DType::f16) return load_lane(static_cast<const half*>(from) + at, size);
  if (type == DType::bf16) return load_lane(static_cast<const bfloat16*>(from) + at, size);
  return load_lane(static_cast<const float*>(from) + at, size);
}
__device__ __forceinline__ void store_lane(DType type, void* to, std::int64_t at, const Lane& lane, int size) {
  if (type == DType::f16) return store_lane(static_cast<half*>(to) + at, lane, size);
  if (type == DType::bf16) return store_lane(static_cast<bfloat16*>(to) + at, lane, size);
  store_lane(static_cast<float*>(to) + at, lane, size);
}

/// `at` is a multiple of lane_elements.
__device__ __forceinline__ Lane round_lane(const PhiloxStream& stream, std::int64_t at, const Lane& lane) {
  const auto words = stream.words(static_cast<std::uint64_t>(at) / lane_elements);
  Lane rounded;
  for (int i = 0; i < lane_elements; ++i) {
    const std::uint32_t random = (words[static_cast<std::size_t>(i / 2)] >> (i % 2 * 16)) & 0xFFFFu;
    const std::uint32_t bits = round_stochastically(lane.values[i], random);
    rounded.values[i] = std::bit_cast<float>(bits << 16);
  }
  return rounded;
}

template <typename Rule, int num_states, bool eight_bit, int capacity>
__global__ void __launch_bounds__(table_threads)
    update_of_types_kernel(TensorTable<first_state_address + num_states, capacity> table, UpdateTypes types,
                           UpdateOperands operands, Rule rule) {
  wait_for_earlier_kernels();
  if (is_refused(operands)) return;
  const auto s = scalars_of(operands, rule);
  const TensorChunk chunk = chunk_of_block(table);
  const auto address = [&](int which) { return table.addresses[which][chunk.tensor]; };
  const PhiloxStream random{operands.scalars->seed, table.tags[chunk.tensor],
                            static_cast<std::uint32_t>(operands.scalars->update)};
  const DType weight_type = types.rounds_weights ? DType::bf16 : DType::f32;
  [[maybe_unused]] MomentView moments[2];
  if constexpr (eight_bit) {
    for (int m = 0; m < 2; ++m) moments[m] = moment_view(address(first_state_address + m), table.counts[chunk.tensor]);
  }

  LostWeights lost;
  // All lanes of a warp go round together: they share a block of moments.
  const std::int64_t lane_begin = std::int64_t{threadIdx.x} * lane_elements;
  const std::int64_t warp_begin = lane_begin / moment_block_elements * moment_block_elements;
  for (std::int64_t round = 0; chunk.begin + round + warp_begin < chunk.end; round += lane_elements * table_threads) {
    const std::int64_t at = chunk.begin + round + lane_begin;
    const std::int64_t left = chunk.end - at;
    const int size = left >= lane_elements ? lane_elements : left > 0 ? static_cast<int>(left) : 0;
    Lane w = load_lane(weight_type, address(weight_address), at, size);
    const Lane g = load_lane(types.gradients, address(gradient_address), at, size);
    [[maybe_unused]] Lane states[2];
    if constexpr (eight_bit) {
      states[0] = read_moments<FirstMoment>(moments[0], at, size);
      states[1] = read_moments<SecondMoment>(moments[1], at, size);
    } else {
      for (int state = 0; state < num_states; ++state)
        states[state] = load_lane(static_cast<const float*>(address(first_state_address + state)) + at, size);
    }

    for (int i = 0; i < lane_elements; ++i) {
      if (i >= size) continue;
      if constexpr (num_states == 0) update_element(s, w.values[i], g.values[i]);
      if constexpr (num_states == 1) update_element(s, w.values[i], g.values[i], states[0].values[i]);
      if constexpr (num_states == 2)
        update_element(s, w.values[i], g.values[i], states[0].values[i], states[1].values[i]);
      lost.look_at(w.values[i]);
    }

    if constexpr (eight_bit) {
      write_moments<FirstMoment>(moments[0], at, size, states[0]);
      write_moments<SecondMoment>(moments[1], at, size, states[1]);
    } else {
      for (int state = 0; state < num_states; ++state)
        store_lane(static_cast<float*>(address(first_state_address + state)) + at, states[state], size);
    }
    if (types.rounds_weights) w = round_lane(random, at, w);
    store_lane(weight_type, address(weight_address), at, w, size);
    if (types.copies != DType::f32) store_lane(types.copies, address(copy_address), at, w, size);
  }
  lost.tell(operands);
}

template <typename Rule, int num_states, bool eight_bit>
void update_all(const UpdateTypes& types, const UpdateOperands& operands, std::span<const UpdateTensor> tensors,
                const Rule& rule, Stream stream) {
  constexpr int num_addresses = first_state_address + num_states;
  const auto entry = [&](std::int64_t i) {
    const UpdateTensor& tensor = tensors[static_cast<std::size_t>(i)];
    TableEntry<num_addresses> result{
        {tensor.weight, const_cast<void*>(tensor.gradient), tensor.copy}, tensor.count, tensor.random_stream};
    for (int state = 0; state < num_states; ++state)
      result.addresses[static_cast<std::size_t>(first_state_address + state)] = tensor.states[state];
    return result;
  };
  for_each_table<num_addresses>(
      std::ssize(tensors), entry,
      [&]<int capacity>(const TensorTable<num_addresses, capacity>& table, std::int64_t blocks) {
        launch(update_of_types_kernel<Rule, num_states, eight_bit, capacity>, Dim3{static_cast<unsigned>(blocks)},
               {table_threads}, stream, table, types, operands, rule);
      });
}

}  // namespace

void update_of_types(const UpdateTypes& types, const UpdateOperands& operands, std::span<const UpdateTensor> tensors,
                     const SgdRule& rule, Stream stream) {
  if (rule.momentum > 0) {
    update_all<SgdRule, 1, false>(types, operands, tensors, rule, stream);
  } else {
    update_all<SgdRule, 0, false>(types, operands, tensors, rule, stream);
  }
}

void update_of_types(const UpdateTypes& types, const UpdateOperands& operands, std::span<const UpdateTensor> tensors,
                     const AdamRule& rule, Stream stream) {
  if (types.eight_bit) {
    update_all<AdamRule, 2, true>(types, operands, tensors, rule, stream);
  } else {
    update_all<AdamRule, 2, false>(types, operands, tensors, rule, stream);
  }
}

}  // namespace trainer::cuda
