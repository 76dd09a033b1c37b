#include <catch2/catch.hpp>

#include "tests/whole_runs/prediction_checks.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

TEST_CASE("predictions are what evaluations read, in the planned memory") { check_predictions(*make_cpu_device(2)); }
