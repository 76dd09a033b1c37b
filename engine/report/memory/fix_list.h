#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/search/change.h"
#include "engine/report/text/style.h"

namespace trainer {

/// The changes, numbered, each with what to paste, its peak against the capacity it was planned under, and what it
/// costs.
std::string fix_list(const std::vector<Change>& fixes, const Style& style);

}  // namespace trainer
