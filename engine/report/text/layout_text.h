#pragma once

#include <string>

#include "engine/config/experiment.h"

namespace trainer {

/// Of several ranks: "4 ranks share each batch", "8 ranks: a pipeline of 4 stages (1f1b, 16 micro-batches), each of 2
/// that share a batch".
std::string layout_text(const ParallelConfig& parallel);

}  // namespace trainer
