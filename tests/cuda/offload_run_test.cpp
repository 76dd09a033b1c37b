#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/offload_checks.h"

using namespace trainer;

TEST_CASE("Activations come back in time though their copies run as late as the streams' waits allow") {
  check_offloaded_runs(*cuda::make_emulated_device(false, cuda::CopyTiming::late));
}

TEST_CASE("Activations leave in time though their copies run as early as the streams' waits allow") {
  check_offloaded_runs(*cuda::make_emulated_device(false, cuda::CopyTiming::early));
}
