#pragma once

#include <string>
#include <vector>

namespace trainer {

/// Keys that differ between two resolved configurations (JSON) and would change what a resumed run computes, as
/// "train.batch_size (was 32, is 64)". What may change: name, output, device, memory and checkpoint settings, the
/// length of the run, evaluation, early stopping and logging.
std::vector<std::string> find_config_drift(const std::string& saved_json, const std::string& current_json);

}  // namespace trainer
