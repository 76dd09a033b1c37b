#pragma once

#include <string_view>

namespace trainer {

/// Whether a layer of that path ("body.3.layers.1") and kind ("gelu") is meant by `pattern`: its kind, its path, or a
/// path that it lies under ("body.3"). A `*` stands for any characters, dots too.
bool matches_layer(std::string_view pattern, std::string_view path, std::string_view kind);

}  // namespace trainer
