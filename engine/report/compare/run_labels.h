#pragma once

#include <string>
#include <vector>

#include "engine/report/record/run_record.h"

namespace trainer {

/// What tells each of these runs from the others, on one line and for people: the keys of the configuration that
/// differ, "lr=0.01, batch_size=128", at most three, or the path where none does or others are the same; behind it how
/// the run ended, where that is not as it should. Of one run its name.
std::vector<std::string> run_labels(const std::vector<RunRecord>& records);

}  // namespace trainer
