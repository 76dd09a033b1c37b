#include <catch2/catch.hpp>
#include <iostream>

#include "engine/cpu/cpu_device.h"
#include "tests/op_cases/embedding_checks.h"
#include "tests/op_cases/op_checks.h"
#include "tests/op_cases/op_timing.h"

namespace trainer {

TEST_CASE("every op computes what a reference in double computes, and every gradient its central difference") {
  check_against_references(*make_cpu_device(2));
}

TEST_CASE("every op gives the same bits again, whatever its outputs and workspace held before") {
  check_repeatable(*make_cpu_device(2));
}

TEST_CASE("every op that may write over an input computes the same bits there") { check_in_place(*make_cpu_device(2)); }

TEST_CASE("every op but those that oneDNN splits by threads gives the same bits on one thread as on three") {
  const auto is_split = [](OpKind kind) {
    return (kind >= OpKind::linear && kind <= OpKind::conv2d_backward_weight) || kind == OpKind::linear_cross_entropy ||
           kind == OpKind::linear_cross_entropy_with_gradient;
  };
  check_same_bits(*make_cpu_device(1), *make_cpu_device(3), [&](OpKind kind) { return !is_split(kind); });
}

TEST_CASE("workspace is the same for equal ops, on every call and for every device of the same threads") {
  check_workspace_and_sharing(*make_cpu_device(2), *make_cpu_device(2));
}

TEST_CASE("an embedding gives NaN for an index that its table has not, and its gradient leaves it out") {
  check_unknown_indices(*make_cpu_device(2));
}

}  // namespace trainer

TEST_CASE("Benchmark: what each op takes on the CPU", "[.benchmark]") {
  trainer::time_ops(*trainer::make_cpu_device(0), std::cout);
}
