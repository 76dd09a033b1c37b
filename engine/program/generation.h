#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/program/program.h"

namespace trainer {

/// The most tokens of a prompt that are read at once.
inline constexpr std::int64_t most_prompt_piece = 64;

/// What writes a text of at most `length` tokens, the prompt included, with the experiment's model: Program::generation
/// (Note [Writing texts] in engine/graph/generation_graph.h). Of parameters that products read under mixed precision
/// there are the 16-bit ones alone. The prompt is read in pieces of most_prompt_piece tokens, or of the whole length
/// where that is less; the last of its tokens is read as one that was written. Keys and values are kept for all tokens
/// but the last, of which nothing is asked. Throws ConfigError for a model that cannot write a text, or not one so
/// long.
Program compile_generation(const Experiment& experiment, std::int64_t length, const DeviceModel& device);

/// The longest text that the model can write; 0: any. Throws as compile_generation.
std::int64_t longest_text(const Experiment& experiment);

}  // namespace trainer
