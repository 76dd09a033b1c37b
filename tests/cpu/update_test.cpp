#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "engine/cpu/cpu_device.h"
#include "engine/half.h"
#include "tests/op_cases/op_case.h"
#include "tests/op_cases/short_numbers.h"
#include "tests/op_cases/update_checks.h"

namespace trainer {

TEST_CASE("bf16 weights are rounded at random without a bias") { check_stochastic_rounding(*make_cpu_device(2)); }

TEST_CASE("8-bit moments err by no more than is said of them") { check_moment_errors(*make_cpu_device(2)); }

TEST_CASE("AdamW with 8-bit moments trains as with f32 ones") {
  check_training_with_8_bit_moments(*make_cpu_device(2));
}

TEST_CASE("updates tell of weights that are lost") { check_lost_weights(*make_cpu_device(2)); }

TEST_CASE("the loss scale and what is updated under it are PyTorch's") {
  check_loss_scale_sequences(*make_cpu_device(2), TRAINER_SOURCE_DIR "/tests/golden/grad_scaler.txt");
}

TEST_CASE("an 8-bit moment takes 1.02 bytes an element") {
  CHECK(moment_type(1).num_bytes() == 8);
  CHECK(moment_type(256).num_bytes() == 260);
  CHECK(moment_type(257).num_bytes() == 260 + 8);
  CHECK(moment_type(1000000).num_bytes() == 1000000 + 4 * 3907);
}

TEST_CASE("an update refuses formats that contradict each other") {
  const std::vector<TensorType> f32 = {{DType::f32, {3}}}, bf16 = {{DType::bf16, {3}}};
  CHECK_THROWS_AS(sgd_update_op(f32, {.format = {.scaled = true}}), InternalError);
  CHECK_THROWS_AS(sgd_update_op(f32, {.format = {.gradients = DType::u8}}), InternalError);
  CHECK_THROWS_AS(sgd_update_op(f32, {.format = {.copies = DType::f32}}), InternalError);
  CHECK_THROWS_AS(sgd_update_op(f32, {.format = {.random_streams = {1}}}), InternalError);
  CHECK_THROWS_AS(sgd_update_op(bf16, {.format = {.random_streams = {1, 2}}}), InternalError);
  CHECK_THROWS_AS(sgd_update_op(bf16, {}), InternalError);
}

TEST_CASE("every number of 16 bits becomes the f32 that it is, and back") {
  for (const DType type : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> bits, back(65536);
    for (std::uint32_t b = 0; b < 65536; ++b) bits.push_back(static_cast<std::uint16_t>(b));
    std::vector<float> numbers(bits.size());
    widen(type, bits.data(), numbers.data(), 65536);
    narrow(type, numbers.data(), back.data(), 65536);
    std::size_t num_wrong = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const double number = number_of(type, bits[i]);
      const bool is_nan = std::isnan(number);
      if (is_nan != std::isnan(numbers[i]) || (!is_nan && static_cast<double>(numbers[i]) != number)) ++num_wrong;
      if (back[i] != (is_nan ? 0x7FFF : bits[i])) ++num_wrong;
    }
    CHECK(num_wrong == 0);
  }
}

TEST_CASE("f32 is rounded to the nearest number of 16 bits, ties to even") {
  // Every bit pattern of the upper bytes, with lower ones below, at and above ties.
  std::vector<float> numbers;
  for (std::uint32_t upper = 0; upper < 65536; ++upper)
    for (const std::uint32_t lower : {0x0000U, 0x0FFFU, 0x1000U, 0x1001U, 0x3000U, 0x7FFFU, 0x8000U, 0x8001U, 0xF000U})
      numbers.push_back(std::bit_cast<float>(upper << 16 | lower));
  std::vector<std::uint16_t> bits(numbers.size());
  for (const DType type : {DType::f16, DType::bf16}) {
    narrow(type, numbers.data(), bits.data(), static_cast<std::int64_t>(numbers.size()));
    std::size_t num_wrong = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto number = static_cast<double>(numbers[i]);
      const std::uint16_t expected = std::isnan(number) ? 0x7FFF : bits_of(type, round_to(type, number));
      if (bits[i] != expected) ++num_wrong;
    }
    CHECK(num_wrong == 0);
  }
}

}  // namespace trainer
