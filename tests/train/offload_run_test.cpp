#include <catch2/catch.hpp>

#include "engine/cpu/cpu_device.h"
#include "tests/whole_runs/offload_checks.h"

using namespace trainer;

TEST_CASE("A run whose activations wait in host memory is the same run, with a lower peak, as planned") {
  check_offloaded_runs(*make_cpu_device(1));
}
