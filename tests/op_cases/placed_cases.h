#pragma once

#include <vector>

#include "tests/op_cases/op_case.h"

namespace trainer {

/// Adds to cases of an op those where its output is placed in a tensor of more channels (Note [Placed outputs] in
/// engine/ops/placed.h): behind 5 channels and before 3, behind none, before none, and where packs of 8 fit.
void append_placed(std::vector<OpCase>& cases);

}  // namespace trainer
