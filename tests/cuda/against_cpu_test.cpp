#include <catch2/catch.hpp>

#include "engine/cpu/cpu_device.h"
#include "tests/cuda/emulated_device.h"
#include "tests/op_cases/op_checks.h"

namespace trainer::cuda {

TEST_CASE("every CUDA op computes what the CPU's does, at sizes around its blocks and packs") {
  check_against_device(*make_emulated_device(), *make_cpu_device(2));
}

}  // namespace trainer::cuda
