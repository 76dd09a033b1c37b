#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/layer_spec.h"

namespace trainer {

/// A number in the model that can be lowered: how wide a layer is, or how often layers repeat.
struct ModelNumber {
  std::string key;  ///< "model.layers.1.linear.out"
  std::int64_t* value = nullptr;
  bool is_width = true;
};

/// All of them, in the order of the model; the values point into `layers`.
std::vector<ModelNumber> numbers_of_model(std::vector<LayerSpec>& layers);

/// Whether a sample's result depends on how the batch is cut, by a layer of such a kind.
bool depends_on_batch(const std::vector<LayerSpec>& layers);
/// The same of all of an experiment: also where samples of a batch are mixed.
bool depends_on_batch(const Experiment& experiment);
bool has_batch_norm(const std::vector<LayerSpec>& layers);
/// Whether a sample's result depends on which others a rank has: by batch norms of ranks apart, or where they are
/// mixed. What dropout draws does not.
bool depends_on_ranks(const Experiment& experiment);

}  // namespace trainer
