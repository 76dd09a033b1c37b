#pragma once

#include <cstdint>

#include "datasets/dataset_description.h"
#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// Tokens of a sample, which are those of its input; 0 where samples are no tokens.
inline std::int64_t tokens_of_sample(const DataConfig& config, const DataDescription& data) {
  return holds_tokens(config) ? data.inputs.front().type.num_elements() : 0;
}

}  // namespace trainer
