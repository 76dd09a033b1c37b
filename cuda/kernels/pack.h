#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "cuda/kernels/element.h"

namespace trainer::cuda {

/// Elements of T that a thread moves at once: 16 bytes.
template <typename T>
inline constexpr int pack_width = 16 / static_cast<int>(sizeof(T));

/// n elements as floats; `from` is aligned to n of them.
template <int n, typename T>
__device__ __forceinline__ Pack<float, n> load_floats(const T* from) {
  const Pack<T, n> pack = load_pack<n>(from);
  Pack<float, n> floats;
  for (int i = 0; i < n; ++i) floats.values[i] = to_float(pack.values[i]);
  return floats;
}

template <int n, typename T>
__device__ __forceinline__ void store_floats(T* to, const Pack<float, n>& floats) {
  Pack<T, n> pack;
  for (int i = 0; i < n; ++i) pack.values[i] = from_float<T>(floats.values[i]);
  store_pack(to, pack);
}

/// n numbers of `numbers` from `first` on; null: each is `otherwise`.
template <int n>
__device__ __forceinline__ Pack<float, n> load_floats_or(const float* numbers, std::int64_t first, float otherwise) {
  if (numbers != nullptr) return load_floats<n>(numbers + first);
  Pack<float, n> result;
  for (int i = 0; i < n; ++i) result.values[i] = otherwise;
  return result;
}

/// Calls function(std::integral_constant<int, n>{}) with n = pack_width<T> where rows of `columns` elements that start
/// at `addresses` can be read in packs of it, else with n = 1. Null addresses do not count.
template <typename T, typename Function>
void with_pack_width(std::int64_t columns, std::initializer_list<const void*> addresses, Function&& function) {
  bool fits = columns % pack_width<T> == 0;
  for (const void* address : addresses) fits = fits && reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
  if (fits) {
    function(std::integral_constant<int, pack_width<T>>{});
  } else {
    function(std::integral_constant<int, 1>{});
  }
}

}  // namespace trainer::cuda
