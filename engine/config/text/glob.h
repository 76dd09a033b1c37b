#pragma once

#include <string_view>

namespace trainer {

/// Whether the whole of `text` is what `pattern` describes, in which `*` stands for any characters, none too.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace trainer
