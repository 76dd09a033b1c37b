#include <catch2/catch.hpp>

#include "engine/cpu/cpu_device.h"
#include "tests/op_cases/normalized_again.h"
#include "tests/op_cases/statistics_checks.h"
#include "tests/op_cases/sum_checks.h"

namespace trainer {

TEST_CASE("batch norm made anew has the bits of the first time") { check_normalized_again(*make_cpu_device(2)); }

TEST_CASE("the gradient of batch norm passes ReLU exactly where the output was above 0") {
  check_gradient_passes_where_output_was_positive(*make_cpu_device(2));
}

TEST_CASE("norms with a sum give the numbers of two ops") { check_sums_equal_two_ops(*make_cpu_device(2)); }

TEST_CASE("the CPU has no statistics of convolutions to offer, and computes them where a program has them") {
  CHECK(check_statistics_of_convolutions(*make_cpu_device(2)) == 0);
  CHECK(check_statistics_of_convolutions(*make_cpu_device(2), true) == 3);
}

}  // namespace trainer
