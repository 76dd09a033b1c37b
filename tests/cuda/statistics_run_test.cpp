#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/statistics_run_checks.h"

using namespace trainer;

TEST_CASE("Batch norms of fp16 runs through CUDA's ops take the statistics of the convolutions in front of them") {
  // All but that of the image and the one with a bias.
  CHECK(check_runs_with_statistics(*cuda::make_emulated_device()) == 4);
}
