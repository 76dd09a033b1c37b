#pragma once

#include <array>
#include <string>

namespace trainer {

/// "[regular expression, replacement]".
using TextPair = std::array<std::string, 2>;

}  // namespace trainer
