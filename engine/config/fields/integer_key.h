#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/config/layer_spec.h"

namespace trainer {

/// What a key that takes integers may be set to.
struct IntegerRange {
  std::int64_t lowest = 0, highest = 0;
};

/// Of a key as overrides name it ("train.batch_size", "model.layers.1.repeat.times", "model.layers.layer1.0.conv1.out",
/// "model.with.width"), of an experiment with these layers. Throws ConfigError where the key takes something else, and
/// says what; and where there is no such key, with the nearest. Whether a model has such a parameter whoever loads the
/// experiment says.
IntegerRange integer_range_of(std::string_view key, const std::vector<LayerSpec>& layers);

}  // namespace trainer
