#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/text_checks.h"

using namespace trainer;
using namespace trainer::cuda;

TEST_CASE("the emulated GPU reads texts as its evaluations do, in the planned memory") {
  check_texts(*make_emulated_device());
}
