#include "tests/op_cases/op_checks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tests/op_cases/case_selection.h"
#include "tests/op_cases/larger_cases.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {

namespace {

void for_every_case(const std::vector<NamedCases>& all, const std::function<void(const OpCase&)>& check) {
  for (const auto& [name, cases] : all) {
    for (const OpCase& op_case : cases) {
      INFO("op " << name << ", case " << op_case.name);
      check(op_case);
    }
  }
}

void check_case(Device& device, const OpCase& op_case) {
  const OpResult result = run_op(device, op_case, std::byte{0xFF});  // NaN in every floating-point type
  const Op& op = op_case.op;
  REQUIRE(op_case.expected.outputs.size() == op.outputs.size());
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    check_close(to_values(op.outputs[i], result.outputs[i]), op_case.expected.outputs[i], op_case.tolerance,
                "output " + std::to_string(i), rounding_of(op.outputs[i].dtype));
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const auto changed = op_case.expected.changed_inputs.find(static_cast<int>(i));
    if (changed != op_case.expected.changed_inputs.end()) {
      check_close(to_values(op.inputs[i], result.inputs[i]), changed->second, op_case.tolerance,
                  "input " + std::to_string(i));
      CHECK(may_modify_input(op, static_cast<int>(i)));
    } else {
      INFO("input " << i << " is not to be modified");
      CHECK(result.inputs[i] == to_bytes(op.inputs[i], op_case.inputs[i]));
    }
  }
}

}  // namespace

const std::vector<NamedCases>& cases_of_every_op() {
  static const std::vector<NamedCases> cases = {
#define TRAINER_OP(name, attributes) {#name, selected_cases(name##_cases())},
      TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP
  };
  return cases;
}

void check_close(const Values& actual, const Values& expected, double tolerance, const std::string& what,
                 double rounding) {
  REQUIRE(actual.size() == expected.size());
  std::size_t worst = 0;
  double excess = 0;  // of what is allowed
  std::size_t num_compared = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) continue;
    ++num_compared;
    if (actual[i] == expected[i]) continue;  // infinities too
    const double magnitude = std::fabs(expected[i]);
    const double error = std::fabs(actual[i] - expected[i]) / (tolerance * (1 + magnitude) + rounding * magnitude);
    if (error <= excess) continue;  // false for NaN
    excess = error;
    worst = i;
    if (std::isnan(error)) break;
  }
  CHECK(num_compared > 0);
  INFO(what << ": element " << worst << " of " << actual.size() << " is " << actual[worst] << ", expected "
            << expected[worst]);
  CHECK(excess <= 1);
}

void check_against_references(Device& device, const std::vector<NamedCases>& all) {
  for (const auto& [name, cases] : all) {
    INFO("op " << name);
    CHECK_FALSE(cases.empty());
    for (const OpCase& op_case : cases) CHECK(name_of(op_case.op.kind) == name);
  }
  for_every_case(all, [&](const OpCase& op_case) { check_case(device, op_case); });
}

void check_repeatable(Device& device, const std::vector<NamedCases>& all) {
  for_every_case(all, [&](const OpCase& op_case) {
    const bool same = run_op(device, op_case, std::byte{0xFF}) == run_op(device, op_case, std::byte{0x3D});
    CHECK(same);
  });
}

void check_in_place(Device& device, const std::vector<NamedCases>& all) {
  int num_checked = 0;
  for_every_case(all, [&](const OpCase& op_case) {
    const auto choices = in_place_rules(op_case.op);
    if (choices.empty()) return;
    const OpResult apart = run_op(device, op_case, std::byte{0});
    std::vector<InPlace> of_all_outputs;
    for (const InPlace& in_place : choices) {
      if (static_cast<std::size_t>(in_place.input) >= op_case.op.inputs.size()) continue;
      // As the scheduler, which takes over memory of the same size.
      if (op_case.op.inputs[static_cast<std::size_t>(in_place.input)].num_bytes() !=
          op_case.op.outputs[static_cast<std::size_t>(in_place.output)].num_bytes())
        continue;
      INFO("output " << static_cast<int>(in_place.output) << " over input " << static_cast<int>(in_place.input));
      const OpResult together = run_op(device, op_case, std::byte{0}, {in_place});
      const bool same = together.outputs == apart.outputs;
      CHECK(same);
      ++num_checked;
      const bool is_first = of_all_outputs.empty() || of_all_outputs.back().output != in_place.output;
      if (is_first) of_all_outputs.push_back(in_place);
    }
    const bool same = run_op(device, op_case, std::byte{0}, of_all_outputs).outputs == apart.outputs;
    CHECK(same);
  });
  CHECK(num_checked > 0);
}

void check_same_bits(Device& one, Device& other, const std::function<bool(OpKind)>& applies,
                     const std::vector<NamedCases>& all) {
  int num_checked = 0;
  for_every_case(all, [&](const OpCase& op_case) {
    if (!applies(op_case.op.kind)) return;
    const bool same = run_op(one, op_case, std::byte{0}) == run_op(other, op_case, std::byte{0});
    CHECK(same);
    ++num_checked;
  });
  CHECK(num_checked > 0);
}

void check_against_device(Device& device, Device& reference) {
  const std::vector<OpCase> cases = larger_cases();
  std::set<OpKind> kinds;
  for (const OpCase& op_case : cases) kinds.insert(op_case.op.kind);
  CHECK(kinds.size() == static_cast<std::size_t>(num_op_kinds));
  check_against_device(device, reference, selected_cases(cases));
}

void check_against_device(Device& device, Device& reference, const std::vector<OpCase>& cases) {
  CHECK_FALSE(cases.empty());
  for (const OpCase& op_case : cases) {
    INFO(op_case.name);
    const Op& op = op_case.op;
    const OpResult result = run_op(device, op_case, std::byte{0xFF});
    const OpResult expected = run_op(reference, op_case, std::byte{0xFF});
    const auto compare = [&](const TensorType& type, const std::vector<std::byte>& bytes,
                             const std::vector<std::byte>& expected_bytes, const char* what) {
      const Values values = to_values(type, expected_bytes);
      CHECK(std::none_of(values.begin(), values.end(), [](double value) { return std::isnan(value); }));
      // Both devices round.
      check_close(to_values(type, bytes), values, op_case.tolerance, what, 2 * rounding_of(type.dtype));
    };
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      compare(op.outputs[i], result.outputs[i], expected.outputs[i], "output");
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      compare(op.inputs[i], result.inputs[i], expected.inputs[i], "input");
  }
}

void check_workspace_and_sharing(Device& device, Device& other, const std::vector<NamedCases>& all) {
  for_every_case(all, [&](const OpCase& op_case) {
    const std::int64_t num_bytes = device.workspace_bytes(op_case.op);
    CHECK(num_bytes >= 0);
    device.prepare(op_case.op);
    const Op copy = op_case.op;
    CHECK(device.workspace_bytes(copy) == num_bytes);
    CHECK(other.workspace_bytes(copy) == num_bytes);
    CHECK(&device.prepare(copy) == &device.prepare(op_case.op));
  });
}

}  // namespace trainer
