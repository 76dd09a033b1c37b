#pragma once

#include "cuda/model/rank_sums.h"

namespace trainer::cuda {

/// What the configuration says of a CUDA device; all of it changes what a program needs or computes.
struct CudaOptions {
  bool tf32 = false;
  bool autotune = false;
  bool deterministic = true;
  bool expandable_segments = false;
  RankSums sums{};
};

}  // namespace trainer::cuda
