#pragma once

#include <cstdint>

#include "engine/half.h"
#include "engine/philox.h"

namespace trainer {

/// to[i] = from[i] rounded at random, by the bits of element first + i (engine/stochastic_rounding.h); `first` is a
/// multiple of rounding_elements.
void round_weights(PhiloxStream stream, std::int64_t first, const float* from, BFloat16* to, std::int64_t count);

}  // namespace trainer
