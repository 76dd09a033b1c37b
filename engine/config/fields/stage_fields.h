#pragma once

#include <string_view>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/fields/experiment_fields.h"

namespace trainer {

using StageField = Field<StageConfig>;

/// What an entry of `stages` takes beside keys of the file, and what `stages: {fine_tune: …}` takes. They say what is
/// explained, suggested and in the schema; engine/config/stage_reader.cpp reads them.
const std::vector<StageField>& stage_fields();
/// `predict` and `fine_tune`.
const std::vector<Section>& stage_sections();

const Section* find_stage_section(std::string_view key);

/// A key of the file that all stages have in common, and why none can change it.
struct SharedKey {
  std::string key, reason;
};
const std::vector<SharedKey>& keys_of_all_stages();
/// The keys directly in an entry: those of the file that a stage may change, and its own.
const std::vector<std::string>& keys_of_stage();

}  // namespace trainer
