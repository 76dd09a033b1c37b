#pragma once

#include <string_view>

#include "engine/config/experiment.h"

namespace trainer {

/// Whether two experiments give a key outside the layers the same value.
bool has_same_value(std::string_view key, const Experiment& a, const Experiment& b);

/// Gives such a key of `to` the value that it has in `from`.
void copy_value(std::string_view key, const Experiment& from, Experiment& to);

}  // namespace trainer
