#pragma once

#include <memory>

#include "engine/cpu/kernels.h"

namespace trainer {

/// Whether an op goes through its f32 kernel: it has 16-bit operands and no kernel that takes them as they are.
/// Note [16-bit operands] in engine/cpu/slicing.h.
bool runs_in_slices(const Op& op);

/// Of an op that runs in slices.
std::unique_ptr<CpuKernel> make_sliced_kernel(const Op& op, CpuContext& context);
std::int64_t sliced_workspace_bytes(const Op& op, CpuContext& context);

}  // namespace trainer
