// Every op with 16-bit operands: Note [16-bit operands] in engine/cpu/slicing.h.

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "engine/cpu/cpu_device.h"
#include "engine/half.h"
#include "tests/op_cases/half_cases.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {

namespace {

constexpr DType short_types[] = {DType::f16, DType::bf16};

}  // namespace

TEST_CASE("every op on 16-bit operands computes what a reference in double does, rounded once") {
  for (const DType type : short_types) {
    INFO(name_of(type));
    check_against_references(*make_cpu_device(2), half_cases(type));
  }
}

TEST_CASE("every op on 16-bit operands gives the same bits again, whatever its outputs and workspace held before") {
  for (const DType type : short_types) check_repeatable(*make_cpu_device(2), half_cases(type));
}

TEST_CASE("every op on 16-bit operands that may write over an input computes the same bits there") {
  for (const DType type : short_types) check_in_place(*make_cpu_device(2), half_cases(type));
}

TEST_CASE("every op on 16-bit operands but products gives the same bits on one thread as on three") {
  for (const DType type : short_types)
    check_same_bits(
        *make_cpu_device(1), *make_cpu_device(3),
        [](OpKind kind) { return kind < OpKind::linear || kind > OpKind::conv2d_backward_weight; }, half_cases(type));
}

TEST_CASE("workspace of 16-bit ops is the same for equal ops, on every call and for every device of the same threads") {
  for (const DType type : short_types)
    check_workspace_and_sharing(*make_cpu_device(2), *make_cpu_device(2), half_cases(type));
}

TEST_CASE("the CPU widens every 16-bit number to what its format says, and narrows that to the same bits") {
  for (const DType type : short_types) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto stored = static_cast<std::uint16_t>(bits);
      float value = 0;
      widen(type, &stored, &value, 1);
      const double expected = number_of(type, stored);
      std::uint16_t back = 0;
      narrow(type, &value, &back, 1);
      if (expected != expected) {
        REQUIRE(value != value);
        REQUIRE(back == 0x7FFF);
        continue;
      }
      REQUIRE(static_cast<double>(value) == expected);
      REQUIRE(back == stored);
      REQUIRE(bits_of(type, expected) == stored);
    }
  }
}

TEST_CASE("the CPU rounds to the nearest 16-bit number, of two to the even one") {
  std::mt19937 random(7);
  for (const DType type : short_types) {
    for (int i = 0; i < 200000; ++i) {
      // Any bits, and numbers halfway between two of the format.
      std::uint32_t bits = static_cast<std::uint32_t>(random());
      if (i % 2 == 0)
        bits = (bits & (type == DType::f16 ? 0xFFFFE000U : 0xFFFF0000U)) | (type == DType::f16 ? 0x1000U : 0x8000U);
      float value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      if (value != value) continue;
      std::uint16_t stored = 0;
      narrow(type, &value, &stored, 1);
      INFO(value);
      REQUIRE(stored == bits_of(type, round_to(type, static_cast<double>(value))));
    }
  }
}

}  // namespace trainer
