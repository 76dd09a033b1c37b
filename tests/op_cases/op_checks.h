#pragma once

#include <functional>
#include <vector>

#include "tests/op_cases/op_case.h"

namespace trainer {

// What every device promises of every op, over all cases or those of 16-bit ops (tests/op_cases/half_cases.h).

struct NamedCases {
  const char* op;
  std::vector<OpCase> cases;
};

/// Made once: their central differences take seconds.
const std::vector<NamedCases>& cases_of_every_op();

/// Checks |actual − expected| ≤ tolerance · (1 + |expected|) + rounding · |expected|, but where NaN is expected.
void check_close(const Values& actual, const Values& expected, double tolerance, const std::string& what,
                 double rounding = 0);

/// Results within each case's tolerance of the reference's; inputs as they were, but those that the op modifies.
void check_against_references(Device& device, const std::vector<NamedCases>& cases = cases_of_every_op());
/// The same bits again, whatever outputs and workspace held before.
void check_repeatable(Device& device, const std::vector<NamedCases>& cases = cases_of_every_op());
/// The same bits where an output lies over an input that it may take over.
void check_in_place(Device& device, const std::vector<NamedCases>& cases = cases_of_every_op());
/// The same bits on either device, for the ops that `applies` to.
void check_same_bits(Device& one, Device& other, const std::function<bool(OpKind)>& applies,
                     const std::vector<NamedCases>& cases = cases_of_every_op());
/// Numbers within each case's tolerance of those of `reference`, for every op at the sizes of larger_cases.
void check_against_device(Device& device, Device& reference);
/// The same for cases that have no expected results of their own.
void check_against_device(Device& device, Device& reference, const std::vector<OpCase>& cases);
/// Workspace is a function of the op, and equal ops share one kernel. `other` is made alike.
void check_workspace_and_sharing(Device& device, Device& other,
                                 const std::vector<NamedCases>& cases = cases_of_every_op());

}  // namespace trainer
