#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/config/text/json_input.h"
#include "engine/train/files/checkpoint.h"

namespace trainer {

/// What state.json says of where a run is, see Note [Checkpoints].
nlohmann::json training_state_json(const TrainingState& state);

/// Reads it back, each value with its type and range. Throws JsonMistake.
TrainingState read_training_state(const JsonInput<nlohmann::json>& json);

}  // namespace trainer
