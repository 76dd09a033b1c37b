#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// The override that sets a key outside the layers to what it is in an experiment: "train.amp=bf16".
std::string override_of(std::string_view key, const Experiment& experiment);

/// The override that gives a key the value that it has in `after`; nothing where `before` has the same.
std::optional<std::string> override_between(std::string_view key, const Experiment& before, const Experiment& after);

/// Puts Experiment::override_prefix in front of overrides, which then say of which stage they are; those of keys that
/// all stages share (keys_of_all_stages) stay.
void add_prefix(std::vector<std::string>& overrides, const std::string& prefix);

}  // namespace trainer
