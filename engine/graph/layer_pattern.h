#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace trainer {

/// Whether a layer of that path ("body.3.layers.1") and kind ("gelu") is meant by `pattern`: its kind, its path, or a
/// path that it lies under ("body.3"). A `*` stands for any characters, dots too.
bool matches_layer(std::string_view pattern, std::string_view path, std::string_view kind);

/// By layer, whether one of the patterns means it. Throws ConfigError for a pattern that means none, at `location`,
/// where `key` is written (nowhere, if its file has no name).
std::vector<bool> matching_layers(std::span<const std::string> patterns, const std::vector<Layer>& layers,
                                  std::string_view key, const SourceLocation& location);

}  // namespace trainer
