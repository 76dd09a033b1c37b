#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// The 32 bytes of FIPS 180-4's SHA-256: what a page's content security policy names its own scripts and styles by.
std::string sha256_of(std::string_view bytes);

}  // namespace trainer
