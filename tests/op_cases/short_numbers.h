#pragma once

#include <cstdint>
#include <vector>

#include "engine/dtype.h"

namespace trainer {

// The numbers of f16 and bf16, by the definition of the formats and in double: an oracle for every conversion.

/// What rounding to f16 or bf16 changes a number by at most, relative to it: half a unit of its last place. 0 for every
/// other type.
double rounding_of(DType type);
/// The number of f16 or bf16 next to `value`, of two the even one; what is too large becomes infinite.
double round_to(DType type, double value);
/// Each of f32's, or the next of f16 or bf16.
std::vector<double> rounded_to(DType type, std::vector<double> values);
/// The bits of a number of f16 or bf16, and back. A NaN is 0x7FFF.
std::uint16_t bits_of(DType type, double value);
double number_of(DType type, std::uint16_t bits);

}  // namespace trainer
