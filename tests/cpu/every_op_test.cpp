#include <catch2/catch.hpp>
#include <cmath>

#include "engine/cpu/cpu_device.h"
#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct NamedCases {
  const char* op;
  std::vector<OpCase> cases;
};

/// Made once: their central differences take seconds.
const std::vector<NamedCases>& cases_of_every_op() {
  static const std::vector<NamedCases> cases = {
#define TRAINER_OP(name, attributes) {#name, name##_cases()},
      TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP
  };
  return cases;
}

void check_close(const Values& actual, const Values& expected, double tolerance, const std::string& what) {
  REQUIRE(actual.size() == expected.size());
  std::size_t worst = 0;
  double excess = 0;
  std::size_t num_compared = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) continue;
    ++num_compared;
    const double error = std::fabs(actual[i] - expected[i]) / (1 + std::fabs(expected[i]));
    if (error <= excess) continue;  // false for NaN
    excess = error;
    worst = i;
    if (std::isnan(error)) break;
  }
  CHECK(num_compared > 0);
  INFO(what << ": element " << worst << " of " << actual.size() << " is " << actual[worst] << ", expected "
            << expected[worst]);
  CHECK(excess <= tolerance);
}

void check_case(Device& device, const OpCase& op_case) {
  const OpResult result = run_op(device, op_case, std::byte{0xFF});  // NaN in every floating-point type
  const Op& op = op_case.op;
  REQUIRE(op_case.expected.outputs.size() == op.outputs.size());
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    check_close(to_values(op.outputs[i], result.outputs[i]), op_case.expected.outputs[i], op_case.tolerance,
                "output " + std::to_string(i));
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const auto changed = op_case.expected.changed_inputs.find(static_cast<int>(i));
    if (changed != op_case.expected.changed_inputs.end()) {
      check_close(to_values(op.inputs[i], result.inputs[i]), changed->second, op_case.tolerance,
                  "input " + std::to_string(i));
    } else {
      INFO("input " << i << " is not to be modified");
      CHECK(result.inputs[i] == to_bytes(op.inputs[i], op_case.inputs[i]));
    }
  }
}

}  // namespace

TEST_CASE("every op computes what a reference in double computes, and every gradient its central difference") {
  const auto device = make_cpu_device(2);
  for (const auto& [name, cases] : cases_of_every_op()) {
    INFO("op " << name);
    CHECK_FALSE(cases.empty());
    for (const OpCase& op_case : cases) {
      INFO("case " << op_case.name);
      CHECK(name_of(op_case.op.kind) == name);
      check_case(*device, op_case);
    }
  }
}

TEST_CASE("every op gives the same bits again, whatever its outputs and workspace held before") {
  const auto device = make_cpu_device(2);
  for (const auto& [name, cases] : cases_of_every_op()) {
    for (const OpCase& op_case : cases) {
      INFO("op " << name << ", case " << op_case.name);
      const bool same = run_op(*device, op_case, std::byte{0xFF}) == run_op(*device, op_case, std::byte{0x3D});
      CHECK(same);
    }
  }
}

TEST_CASE("every op that may write over an input computes the same bits there") {
  const auto device = make_cpu_device(2);
  int num_checked = 0;
  for (const auto& [name, cases] : cases_of_every_op()) {
    for (const OpCase& op_case : cases) {
      const OpResult apart = run_op(*device, op_case, std::byte{0});
      for (const InPlace& in_place : definition_of(op_case.op.kind).in_place) {
        if (static_cast<std::size_t>(in_place.input) >= op_case.op.inputs.size()) continue;
        INFO("op " << name << ", case " << op_case.name << ", output over input " << static_cast<int>(in_place.input));
        const OpResult together = run_op(*device, op_case, std::byte{0}, in_place);
        const bool same = together.outputs == apart.outputs;
        CHECK(same);
        ++num_checked;
      }
    }
  }
  CHECK(num_checked > 0);
}

TEST_CASE("every op but those that oneDNN splits by threads gives the same bits on one thread as on three") {
  const auto one = make_cpu_device(1);
  const auto three = make_cpu_device(3);
  for (const auto& [name, cases] : cases_of_every_op()) {
    for (const OpCase& op_case : cases) {
      const OpKind kind = op_case.op.kind;
      if (kind >= OpKind::linear && kind <= OpKind::conv2d_backward_weight) continue;
      INFO("op " << name << ", case " << op_case.name);
      const bool same = run_op(*one, op_case, std::byte{0}) == run_op(*three, op_case, std::byte{0});
      CHECK(same);
    }
  }
}

TEST_CASE("workspace is the same for equal ops, on every call and for every device of the same threads") {
  const auto device = make_cpu_device(2);
  const auto other = make_cpu_device(2);
  for (const auto& [name, cases] : cases_of_every_op()) {
    for (const OpCase& op_case : cases) {
      INFO("op " << name << ", case " << op_case.name);
      const std::int64_t num_bytes = device->workspace_bytes(op_case.op);
      CHECK(num_bytes >= 0);
      device->prepare(op_case.op);
      const Op copy = op_case.op;
      CHECK(device->workspace_bytes(copy) == num_bytes);
      CHECK(other->workspace_bytes(copy) == num_bytes);
      CHECK(&device->prepare(copy) == &device->prepare(op_case.op));
    }
  }
}

}  // namespace trainer
