#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/residual_checks.h"

using namespace trainer;

TEST_CASE("Sums that are part of a norm change no bit of a run through CUDA's ops") {
  check_fused_residuals_change_no_bit(*cuda::make_emulated_device());
}
