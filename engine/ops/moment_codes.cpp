#include "engine/ops/moment_codes.h"

#include <bit>
#include <cmath>

#include "engine/ops/optimizer_update.h"
#include "engine/simd.h"

namespace trainer {

namespace {

constexpr float first_codes = 127, second_codes = 255;

/// The largest magnitude; NaN where there is one, which as an integer is above all numbers.
TRAINER_SIMD_INLINE float largest_magnitude(const float* moment, std::int64_t count) {
  std::int32_t most = 0;
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(moment[i]) & 0x7FFFFFFFU);
    most = bits > most ? bits : most;
  }
  return std::bit_cast<float>(most);
}

TRAINER_SIMD_INLINE std::int64_t block_size(std::int64_t begin, std::int64_t count) {
  return count - begin < moment_block_elements ? count - begin : moment_block_elements;
}

/// `root` · codes to the nearest integer; 0 for NaN, which is what the root is where the largest magnitude is 0.
TRAINER_SIMD_INLINE std::int32_t code_of(float root, float codes) {
  const float code = root * codes + 0.5F;
  return code > 0 ? static_cast<std::int32_t>(code) : 0;
}

}  // namespace

TRAINER_SIMD void read_first_moment(const std::uint8_t* codes, const float* largest, float* moment,
                                    std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += moment_block_elements) {
    const float scale = *largest++;
    const std::int64_t end = begin + block_size(begin, count);
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int32_t code = static_cast<std::int8_t>(codes[i]);
      const std::int32_t square = code < 0 ? -code * code : code * code;
      moment[i] = static_cast<float>(square) / (first_codes * first_codes) * scale;
    }
  }
}

TRAINER_SIMD void read_second_moment(const std::uint8_t* codes, const float* largest, float* moment,
                                     std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += moment_block_elements) {
    const float scale = *largest++;
    const std::int64_t end = begin + block_size(begin, count);
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      const float root = static_cast<float>(static_cast<std::int32_t>(codes[i])) / second_codes;
      moment[i] = (root * root) * (root * root) * scale;
    }
  }
}

TRAINER_SIMD void write_first_moment(const float* moment, std::uint8_t* codes, float* largest, std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += moment_block_elements) {
    const std::int64_t size = block_size(begin, count);
    const float scale = largest_magnitude(moment + begin, size);
    *largest++ = scale;
#pragma omp simd
    for (std::int64_t i = begin; i < begin + size; ++i) {
      const std::int32_t code = code_of(std::sqrt(std::fabs(moment[i]) / scale), first_codes);
      codes[i] = static_cast<std::uint8_t>(moment[i] < 0 ? -code : code);
    }
  }
}

TRAINER_SIMD void write_second_moment(const float* moment, std::uint8_t* codes, float* largest, std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += moment_block_elements) {
    const std::int64_t size = block_size(begin, count);
    const float scale = largest_magnitude(moment + begin, size);
    *largest++ = scale;
#pragma omp simd
    for (std::int64_t i = begin; i < begin + size; ++i) {
      const std::int32_t code = code_of(std::sqrt(std::sqrt(std::fabs(moment[i]) / scale)), second_codes);
      codes[i] = static_cast<std::uint8_t>(code == 0 && moment[i] > 0 ? 1 : code);
    }
  }
}

}  // namespace trainer
