#pragma once

#include <cstdint>
#include <string_view>

namespace trainer {

/// What a key that takes integers may be set to.
struct IntegerRange {
  std::int64_t lowest = 0, highest = 0;
};

/// Of a key as overrides name it ("train.batch_size", "model.layers.1.repeat.times"). Throws ConfigError where the key
/// takes something else, and says what; and where there is no such key, with the nearest.
IntegerRange integer_range_of(std::string_view key);

}  // namespace trainer
