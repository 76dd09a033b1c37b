#pragma once

#include <memory>

#include "engine/cpu/kernels.h"

namespace trainer {

// How an op goes through its f32 kernel that has 16-bit operands and no kernel that takes them as they are: Note
// [16-bit operands] in slicing.h.
std::unique_ptr<CpuKernel> make_sliced_kernel(const Op& op, Cut cut, CpuContext& context);
std::int64_t sliced_workspace_bytes(const Op& op, Cut cut, CpuContext& context);

}  // namespace trainer
