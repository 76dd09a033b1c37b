#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/prediction_checks.h"

using namespace trainer;
using namespace trainer::cuda;

TEST_CASE("the emulated GPU predicts what its evaluations read, in the planned memory") {
  check_predictions(*make_emulated_device());
}
