#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// The bytes as gzip (RFC 1952), without a name or time: the same for the same bytes.
std::string gzip_of(std::string_view bytes);

/// RFC 4648, with padding.
std::string base64_of(std::string_view bytes);

}  // namespace trainer
