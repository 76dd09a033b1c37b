#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// RFC 4648, with padding.
std::string base64_of(std::string_view bytes);

}  // namespace trainer
