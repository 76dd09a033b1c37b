#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/cpu/parallel.h"
#include "engine/half.h"

namespace trainer {

/// 16-bit elements that are widened at a time: a few KiB of stack for each operand.
inline constexpr std::int64_t stack_elements = 1024;

/// Calls loop(x, y, first, count) for pieces of [0, num_elements), in threads: x (of each input) and y point to element
/// `first`, a multiple of 64, as f32. Inputs and y are of `type`, f32, f16 or bf16; y may be any of the inputs. What 16
/// bit needs of scratch is on the stack.
template <std::size_t num_inputs, typename Loop>
void for_elements(DType type, int num_threads, std::int64_t num_elements,
                  const std::array<const void*, num_inputs>& inputs, void* y, Loop&& loop) {
  if (type == DType::f32) {
    parallel_elements(num_threads, num_elements, [&](std::int64_t begin, std::int64_t end) {
      std::array<const float*, num_inputs> x;
      for (std::size_t i = 0; i < num_inputs; ++i) x[i] = static_cast<const float*>(inputs[i]) + begin;
      loop(x, static_cast<float*>(y) + begin, begin, end - begin);
    });
    return;
  }
  parallel_elements(num_threads, num_elements, [&](std::int64_t begin, std::int64_t end) {
    float widened[num_inputs][stack_elements];
    std::array<const float*, num_inputs> x;
    for (std::size_t i = 0; i < num_inputs; ++i) x[i] = widened[i];
    for (std::int64_t first = begin; first < end; first += stack_elements) {
      const std::int64_t count = std::min(stack_elements, end - first);
      for (std::size_t i = 0; i < num_inputs; ++i)
        widen(type, static_cast<const std::byte*>(inputs[i]) + 2 * first, widened[i], count);
      loop(x, widened[0], first, count);
      narrow(type, widened[0], static_cast<std::byte*>(y) + 2 * first, count);
    }
  });
}

}  // namespace trainer
