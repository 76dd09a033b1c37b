#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/op_cases/normalized_again.h"
#include "tests/op_cases/statistics_checks.h"
#include "tests/op_cases/sum_checks.h"

namespace trainer::cuda {

TEST_CASE("batch norm of a CUDA device, made anew, has the bits of the first time") {
  check_normalized_again(*make_emulated_device());
}

TEST_CASE("the gradient of a CUDA device's batch norm passes ReLU exactly where the output was above 0") {
  check_gradient_passes_where_output_was_positive(*make_emulated_device());
}

TEST_CASE("a CUDA device's norms with a sum give the numbers of two ops") {
  check_sums_equal_two_ops(*make_emulated_device());
}

TEST_CASE("a CUDA device's convolution with statistics gives the sums of what it computes") {
  CHECK(check_statistics_of_convolutions(*make_emulated_device()) == 3);
}

}  // namespace trainer::cuda
