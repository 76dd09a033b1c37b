#pragma once

#include <cstdint>

namespace trainer {

/// The number of a token in its vocabulary.
using TokenId = std::uint32_t;

}  // namespace trainer
