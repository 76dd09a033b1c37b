#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// Tokens of a sample, which are those of its input; 0 where samples are no tokens.
inline std::int64_t tokens_of_sample(const DataConfig& config, const DataDescription& data) {
  const bool has_tokens = config.type == DataType::tokens || config.type == DataType::text;
  return has_tokens ? data.inputs.front().type.num_elements() : 0;
}

}  // namespace trainer
