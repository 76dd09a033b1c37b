// Every op on the CUDA device's kernels, run on the host.

#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/op_cases/embedding_checks.h"
#include "tests/op_cases/op_checks.h"

namespace trainer::cuda {

TEST_CASE("every CUDA op computes what a reference in double computes, and every gradient its central difference") {
  check_against_references(*make_emulated_device());
}

TEST_CASE("every CUDA op gives the same bits again, whatever its outputs and workspace held before") {
  check_repeatable(*make_emulated_device());
}

TEST_CASE("every CUDA op that may write over an input computes the same bits there") {
  check_in_place(*make_emulated_device());
}

TEST_CASE("workspace of a CUDA op is the same for equal ops, on every call and every device alike") {
  check_workspace_and_sharing(*make_emulated_device(), *make_emulated_device());
}

TEST_CASE("a CUDA embedding gives NaN for an index that its table has not, and its gradient leaves it out") {
  check_unknown_indices(*make_emulated_device());
}

}  // namespace trainer::cuda
