#pragma once

#include <cstdint>
#include <span>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

struct ZeroedTensor {
  void* data = nullptr;
  std::int64_t count = 0;
};

/// All elements of all tensors, of f32, f16 or bf16 as `type` says, become 0. One launch for up to 640 tensors. Bytes:
/// each element once. FLOPs: none.
void fill_zero(DType type, std::span<const ZeroedTensor> tensors, Stream stream);

}  // namespace trainer::cuda
