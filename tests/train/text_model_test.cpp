#include <catch2/catch.hpp>

#include "tests/whole_runs/text_checks.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

TEST_CASE("texts are read as evaluations read them, in the planned memory") { check_texts(*make_cpu_device(2)); }
