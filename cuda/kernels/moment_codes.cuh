#pragma once
// Moments of Note [8-bit moments] in engine/ops/optimizer_update.h: a warp has a block of them, each lane moment_lane
// elements of it, of which the last lanes of a tensor have fewer.

#include <bit>
#include <cstdint>

#include "cuda/kernels/element.h"
#include "engine/ops/optimizer_update.h"

namespace trainer::cuda {

inline constexpr int moment_lane = moment_block_elements / warp_size;

using MomentLane = Pack<float, moment_lane>;

/// The codes of a moment and the largest magnitude of each block.
struct MomentView {
  std::uint8_t* codes;
  float* largest;
};
__device__ __forceinline__ MomentView moment_view(void* state, std::int64_t count) {
  auto* const codes = static_cast<std::uint8_t*>(state);
  return {codes, reinterpret_cast<float*>(codes + moment_code_bytes(count))};
}

/// `root` · codes to the nearest integer; 0 for NaN, which is what the root is where the largest magnitude is 0.
__device__ __forceinline__ int moment_code(float root, float codes) {
  const float code = root * codes + 0.5f;
  return code > 0 ? static_cast<int>(code) : 0;
}

struct FirstMoment {
  __device__ static float decode(std::uint8_t byte, float largest) {
    const int code = static_cast<std::int8_t>(byte);
    return static_cast<float>(code < 0 ? -code * code : code * code) / (127.0f * 127.0f) * largest;
  }
  __device__ static std::uint8_t encode(float moment, float largest) {
    const int code = moment_code(sqrtf(fabsf(moment) / largest), 127.0f);
    return static_cast<std::uint8_t>(moment < 0 ? -code : code);
  }
};
struct SecondMoment {
  __device__ static float decode(std::uint8_t byte, float largest) {
    const float root = static_cast<float>(byte) / 255.0f;
    return (root * root) * (root * root) * largest;
  }
  __device__ static std::uint8_t encode(float moment, float largest) {
    const int code = moment_code(sqrtf(sqrtf(fabsf(moment) / largest)), 255.0f);
    return static_cast<std::uint8_t>(code == 0 && moment > 0 ? 1 : code);
  }
};

/// The lane's moments from element `at` on, `size` of them, the others 0.
template <typename Moment>
__device__ __forceinline__ MomentLane read_moments(const MomentView& view, std::int64_t at, int size) {
  const float largest = size > 0 ? view.largest[at / moment_block_elements] : 0.0f;
  Pack<std::uint8_t, moment_lane> codes = {};
  if (size == moment_lane && reinterpret_cast<std::uintptr_t>(view.codes) % sizeof(codes) == 0) {
    codes = *reinterpret_cast<const Pack<std::uint8_t, moment_lane>*>(view.codes + at);
  } else {
    for (int i = 0; i < moment_lane; ++i)
      if (i < size) codes.values[i] = view.codes[at + i];
  }
  MomentLane moments;
  for (int i = 0; i < moment_lane; ++i) moments.values[i] = i < size ? Moment::decode(codes.values[i], largest) : 0.0f;
  return moments;
}

/// Every lane of the warp calls it, with 0 for elements that it does not have.
template <typename Moment>
__device__ __forceinline__ void write_moments(const MomentView& view, std::int64_t at, int size,
                                              const MomentLane& moments) {
  // As an integer, NaN is above all numbers.
  int most = 0;
  for (int i = 0; i < moment_lane; ++i) {
    const int magnitude = std::bit_cast<int>(moments.values[i]) & 0x7FFFFFFF;
    most = magnitude > most ? magnitude : most;
  }
  for (int mask = warp_size / 2; mask > 0; mask /= 2) {
    const int other = shuffle_xor(most, mask);
    most = other > most ? other : most;
  }
  if (size == 0) return;
  const float largest = std::bit_cast<float>(most);
  if (at % moment_block_elements == 0) view.largest[at / moment_block_elements] = largest;
  Pack<std::uint8_t, moment_lane> codes;
  for (int i = 0; i < moment_lane; ++i) codes.values[i] = Moment::encode(moments.values[i], largest);
  if (size == moment_lane && reinterpret_cast<std::uintptr_t>(view.codes) % sizeof(codes) == 0) {
    *reinterpret_cast<Pack<std::uint8_t, moment_lane>*>(view.codes + at) = codes;
  } else {
    for (int i = 0; i < moment_lane; ++i)
      if (i < size) view.codes[at + i] = codes.values[i];
  }
}

}  // namespace trainer::cuda
