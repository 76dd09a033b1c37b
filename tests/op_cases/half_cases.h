#pragma once

#include <vector>

#include "tests/op_cases/op_checks.h"

namespace trainer {

// Ops with operands of f16 or bf16, derived from the cases with f32 ones: activations, the operands of products and
// their gradients are 16 bit, statistics and the weights of norms stay f32, as mixed precision has it
// (engine/program/precision.h). The references are those of the f32 cases, on inputs that 16 bit holds exactly.

/// Every op that has a form with operands of `type`, with its cases. Made once.
const std::vector<NamedCases>& half_cases(DType type);

/// The same of larger_cases.
std::vector<OpCase> larger_half_cases(DType type);

/// Of these, attention and its gradient, with room for any scratch: what a library may serve.
std::vector<OpCase> larger_attention_cases(DType type);

/// The cases for a device whose tensor cores multiply the weights of attention: with that rounding allowed for.
std::vector<OpCase> with_rounded_weights(std::vector<OpCase> cases, DType type);
std::vector<NamedCases> with_rounded_weights(std::vector<NamedCases> all, DType type);

}  // namespace trainer
