#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/fixes.h"
#include "engine/report/style.h"

namespace trainer {

/// The changes, numbered, each with what to paste, its peak against the capacity, and what it costs.
std::string fix_list(const std::vector<Fix>& fixes, std::int64_t capacity, const Style& style);

}  // namespace trainer
