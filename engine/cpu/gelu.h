#pragma once

#include <cstdint>

namespace trainer {

/// y = gelu(x) by its tanh approximation, as in engine/cpu/activation_kernel.cpp.
void gelu_tanh(const float* x, float* y, std::int64_t count, int num_threads);
/// gradient *= gelu'(x), likewise.
void gelu_tanh_backward_in_place(float* gradient, const float* x, std::int64_t count, int num_threads);

}  // namespace trainer
