#include "engine/cpu/cpu_device.h"
#include "tests/whole_runs/mask_checks.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

TEST_CASE("Masks taken from what is kept anyway change no bit of a run") {
  check_masks_change_no_bit(*make_cpu_device(1));
}
