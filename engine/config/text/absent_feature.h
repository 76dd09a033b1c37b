#pragma once

#include <string_view>

namespace trainer {

/// Of a word by which other programs call what trainer does not do, or needs no setting for: what there is instead, as
/// the end of a sentence; "" for every other word. What is told so stands in configs/LIMITS.md.
std::string_view absent_feature(std::string_view word);

}  // namespace trainer
