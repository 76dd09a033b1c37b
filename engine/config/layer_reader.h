#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/config/layer_spec.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

/// Layers that an experiment may have once every `repeat` is written out.
inline constexpr std::int64_t most_layers = 100'000;

/// Reads a list of layers by the tables in layer_fields.h; `key` is what messages call the list.
std::vector<LayerSpec> read_layers(const Node& node, const std::string& key, SourceSet& sources);

/// The kind of layer that was likely meant by a name that is none: by what other programs call it, else the nearest; ""
/// where there is none. `of_features`: its input has no height and width.
std::string suggest_layer(const std::string& name, bool of_features = false);

/// Layers with every `repeat` written out; most_layers + 1 stands for all that is more.
std::int64_t num_expanded_layers(std::span<const LayerSpec> layers);

/// The list that read_layers() reads back to the same layers.
Node node_of_layers(const std::vector<LayerSpec>& layers);

}  // namespace trainer
