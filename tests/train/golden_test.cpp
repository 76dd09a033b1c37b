#include "engine/cpu/cpu_device.h"
#include "tests/whole_runs/device_checks.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

TEST_CASE("Losses, learning rates and final weights are PyTorch's") {
  const auto device = make_cpu_device(2);
  check_golden_networks(*device);
}

TEST_CASE("The plan of a run on the CPU is the run's memory, step by step") {
  const auto device = make_cpu_device(1);
  check_plan_equals_run(*device);
}
