#pragma once

#include "engine/ops/op.h"

namespace trainer {

/// Whether any operand is f16 or bf16.
bool has_half_operand(const Op& op);

}  // namespace trainer
