#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/graph_builder.h"

namespace trainer {

// Note [Frozen networks]
// ~~~~~~~~~~~~~~~~~~~~~~
// A loss on features (LossType::feature) compares what layers of a network that is not trained make of the prediction
// and of the target (Johnson et al., Perceptual Losses, 2016). Its layers are those of the graph, as evaluations have
// them: norms by their running statistics, no dropout. They are built twice over one set of parameters, first over the
// target, where nothing is kept for a gradient, then over the prediction, whose gradient flows through them to the
// model. So the early, large outputs of the first are gone before the second ones are there.
//
// Layers behind the last that is compared are not built. The parameters belong to the layer `loss.network`, have the
// category `frozen`, and are the graph's like others, but with Parameter::network set: they are not trainable, never
// initialised, saved or counted as the model's, and loaded from their file in each run (FrozenWeights in
// engine/train/files/frozen_weights.h). With 16-bit arithmetic those that products read are 16-bit alone.
//
// Each layer that is compared is a mean of its own, with statistics and a factor for its gradient: a LossPart.

/// The outputs of the layers that a loss on features compares, in their order.
struct ComparedFeatures {
  std::vector<ValueId> predicted, wanted;
};

/// Builds the network of `loss`, number `index`, over targets and prediction; its layers stand under `path`. Throws
/// ConfigError where these are no images that are alike, where the network has no layer of such a name, and where its
/// shapes disagree.
ComparedFeatures build_frozen_network(GraphBuilder& builder, Graph& graph, const LossConfig& loss, std::int32_t index,
                                      const std::string& path);

/// The number of numbers of a sample in a value of a batch.
std::int64_t numbers_of_sample(const TensorType& batch);

}  // namespace trainer
