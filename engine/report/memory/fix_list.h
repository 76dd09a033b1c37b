#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/search/change.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What fits on the last screen of a report.
inline constexpr std::size_t num_fixes_of_ending = 3;

/// The first `most` changes, numbered, each with what to paste, its peak against the capacity it was planned under, and
/// what it costs.
std::string fix_list(const std::vector<Change>& fixes, const Style& style, std::size_t most);

}  // namespace trainer
