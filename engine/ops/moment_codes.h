#pragma once

#include <cstdint>

namespace trainer {

// On the host, parts of tensors of engine/ops/optimizer_update.h's Note [8-bit moments]: `codes` and `largest` are the
// first byte and the first f32 of the part, which begins where a block of moment_block_elements does and may end within
// one.

void read_first_moment(const std::uint8_t* codes, const float* largest, float* moment, std::int64_t count);
void read_second_moment(const std::uint8_t* codes, const float* largest, float* moment, std::int64_t count);
void write_first_moment(const float* moment, std::uint8_t* codes, float* largest, std::int64_t count);
void write_second_moment(const float* moment, std::uint8_t* codes, float* largest, std::int64_t count);

}  // namespace trainer
