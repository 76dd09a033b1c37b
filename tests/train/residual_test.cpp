#include "engine/cpu/cpu_device.h"
#include "tests/whole_runs/residual_checks.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

TEST_CASE("Sums that are part of a norm change no bit of a run") {
  check_fused_residuals_change_no_bit(*make_cpu_device(1));
}
