#pragma once

#include <optional>
#include <string>

namespace trainer {

/// Where what may be made anew is kept: (XDG_CACHE_HOME or ~/.cache)/trainer. Nothing where neither XDG_CACHE_HOME nor
/// HOME is set.
std::optional<std::string> cache_folder();

}  // namespace trainer
