#pragma once

#include <cstdint>

#include "engine/graph/graph.h"

namespace trainer {

// Note [Predictions]
// ~~~~~~~~~~~~~~~~~~
// What a model says of data that it was not trained on is its graph of an evaluation without targets, loss and metrics.
// What comes out is what the loss would read, logits: the loss's activation (engine/train/prediction_outputs.h) is done
// on the host, in f64, to as few numbers as a model puts out. The passes that an evaluation's graph goes through are
// those of this one (engine/program/prediction.h), so its predictions are those that evaluations judged, bit for bit,
// for batches of one size; and nothing is held but parameters and what the next op reads.

/// The model over a batch of `data`'s inputs, of which alone it knows; Graph::prediction is what it makes of them.
/// Throws ConfigError that points at the layer's line where shapes disagree.
Graph build_prediction_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size);

}  // namespace trainer
