#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/mask_checks.h"

using namespace trainer;

TEST_CASE("Masks taken from what is kept anyway change no bit of a run through CUDA's ops") {
  check_masks_change_no_bit(*cuda::make_emulated_device());
}
