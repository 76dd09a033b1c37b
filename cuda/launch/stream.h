#pragma once

struct CUstream_st;

namespace trainer::cuda {

/// cudaStream_t, nameable without a CUDA header. Where kernels run on the host it is null.
using Stream = CUstream_st*;

}  // namespace trainer::cuda
