#pragma once

#include <string>

#include "engine/config/fields/enum_choices.h"

namespace trainer {

/// As memory.allocator names it.
inline const std::string& allocator_name(AllocatorKind kind) { return allocator_choices().name_of(kind); }

}  // namespace trainer
