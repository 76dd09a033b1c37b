#pragma once

#include <cstddef>

#include "engine/shape.h"

namespace trainer {

/// Whether all numbers of a tensor in host memory are finite; true for types that are not f32, f16 or bf16.
bool all_finite(const TensorType& type, const std::byte* bytes);

}  // namespace trainer
