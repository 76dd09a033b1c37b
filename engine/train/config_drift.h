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

/// What differs in how ranks share a batch between two resolved configurations, which a run may go on with, and which
/// the order of its sums on CPUs depends on.
struct SharingDrift {
  std::string text;               ///< "batches are shared by 4 ranks (were of one process)"; empty: nothing
  bool cuts_otherwise = false;    ///< in other parts, within which samples are mixed
  bool norms_see_others = false;  ///< batch norms see other parts
};
/// Throws DataError where the saved one has another type of value.
SharingDrift find_sharing_drift(const std::string& saved_json, const std::string& current_json);

/// The train.batch_size of a resolved configuration; nothing where it is a word.
std::optional<std::int64_t> saved_batch_size(const std::string& saved_json);

}  // namespace trainer
