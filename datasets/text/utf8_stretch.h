#pragma once

#include <cstddef>
#include <string_view>

namespace trainer {

/// How many of the first bytes are well-formed UTF-8 (RFC 3629): all, or those in front of the first that is none.
std::size_t utf8_stretch(std::string_view text);

}  // namespace trainer
