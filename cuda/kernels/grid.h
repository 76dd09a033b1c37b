#pragma once

#include "cuda/launch/launch.h"
#include "engine/errors.h"

namespace trainer::cuda {

/// A launch of so many blocks in a line; 2^31 and more are refused.
inline Dim3 grid_of(std::int64_t count) {
  require_internal(count <= 0x7FFFFFFF, "a kernel is launched with fewer than 2^31 blocks");
  return {static_cast<unsigned>(count)};
}

}  // namespace trainer::cuda
