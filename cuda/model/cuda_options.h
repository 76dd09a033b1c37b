#pragma once

namespace trainer::cuda {

/// What the configuration says of a CUDA device; all of it changes what a program needs or computes.
struct CudaOptions {
  bool tf32 = false;
  bool autotune = false;
  bool deterministic = true;
  bool expandable_segments = false;
  bool sums_in_order = false;  ///< over ranks, so that they are those of any number of them
  int num_ranks = 1;
};

}  // namespace trainer::cuda
