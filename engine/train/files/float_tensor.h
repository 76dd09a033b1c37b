#pragma once

#include <cstddef>

#include "engine/shape.h"

namespace trainer {

/// Whether all numbers of a tensor in host memory are finite; true for types of integers.
bool all_finite(const TensorType& type, const std::byte* bytes);

}  // namespace trainer
