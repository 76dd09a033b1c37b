#pragma once

#include <cstdint>

namespace trainer {

/// values = max(values, 0) in place, keeping NaN. oneDNN's fused ReLU turns NaN into 0, which would hide a diverged
/// layer behind it; a pass over what a product just wrote costs about 1 % of it.
void relu_in_place(float* values, std::int64_t count, int num_threads);

}  // namespace trainer
