#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer {

/// Keys that differ between two resolved configurations (JSON) and would change what a resumed run computes, as
/// "train.batch_size (was 32, is 64)". What may change is said where each key is declared (KeyEffects::on_resume); the
/// length of the run may, unless the learning rates follow it (schedules cosine and one_cycle).
std::vector<std::string> find_config_drift(const std::string& saved_json, const std::string& current_json);

/// The train.batch_size of a resolved configuration; nothing where it is a word.
std::optional<std::int64_t> saved_batch_size(const std::string& saved_json);

}  // namespace trainer
