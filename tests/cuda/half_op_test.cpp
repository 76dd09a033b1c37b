// Every op with 16-bit operands on the CUDA device's kernels, run on the host.

#include <catch2/catch.hpp>

#include "engine/cpu/cpu_device.h"
#include "tests/cuda/emulated_device.h"
#include "tests/op_cases/half_cases.h"

namespace trainer::cuda {

namespace {

constexpr DType short_types[] = {DType::f16, DType::bf16};

}  // namespace

TEST_CASE("every CUDA op on 16-bit operands computes what a reference in double does, rounded once") {
  for (const DType type : short_types) {
    INFO(name_of(type));
    check_against_references(*make_emulated_device(), with_rounded_weights(half_cases(type), type));
  }
}

TEST_CASE("every CUDA op on 16-bit operands gives the same bits again, whatever its memory held before") {
  for (const DType type : short_types) check_repeatable(*make_emulated_device(), half_cases(type));
}

TEST_CASE("every CUDA op on 16-bit operands that may write over an input computes the same bits there") {
  for (const DType type : short_types) check_in_place(*make_emulated_device(), half_cases(type));
}

TEST_CASE("workspace of 16-bit CUDA ops is the same for equal ops, on every call and every device alike") {
  for (const DType type : short_types)
    check_workspace_and_sharing(*make_emulated_device(), *make_emulated_device(), half_cases(type));
}

TEST_CASE("every CUDA op on 16-bit operands computes what the CPU's does, at sizes around its blocks and packs") {
  for (const DType type : short_types) {
    INFO(name_of(type));
    check_against_device(*make_emulated_device(), *make_cpu_device(2),
                         with_rounded_weights(larger_half_cases(type), type));
  }
}

}  // namespace trainer::cuda
