#pragma once

#include "engine/graph/tensor_pieces.h"
#include "engine/train/executor.h"
#include "engine/train/files/saved_tensors.h"
#include "engine/train/files/weights_match.h"

namespace trainer {

/// Fills the parameters and running statistics that `match` has as loaded, each rounded to what the device keeps. The
/// rest stays as it is. `executor` has run its load; its program has the model that was matched. Tensors go through
/// `memory` a piece at a time (Note [Pieces] in engine/graph/tensor_pieces.h), through memory of its own where a piece
/// has no room there; less than a MiB is taken beside it. Throws DataError where a file cannot be read or holds a
/// number that is not finite, which no training recovers from.
void load_weights(const WeightsMatch& match, const WeightFiles& files, Executor& executor, PieceMemory& memory);
/// The same of `tensors`, by their names, which were matched.
void load_weights(const WeightsMatch& match, const WeightFiles& files, const std::vector<SavedTensor>& tensors,
                  Executor& executor, PieceMemory& memory);

}  // namespace trainer
