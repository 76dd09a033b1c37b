#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// The candidate that may be meant by `name`: the one that shares all parts between dots of the shorter name, counted
/// from the last; else the nearest word (nearest_word.h); else the one that shares most of the last parts, two at
/// least.
/// "" where there is none. Looks at the first 2,000 candidates.
std::string nearest_tensor_name(std::string_view name, const std::vector<std::string>& candidates);

/// What all of `names` begin with, letters, digits, '_', '-' and a dot at its end, where each without it is one of
/// `others`, and there are as many of both. "" where there is none.
std::string common_prefix(const std::vector<std::string>& names, const std::vector<std::string>& others);

}  // namespace trainer
