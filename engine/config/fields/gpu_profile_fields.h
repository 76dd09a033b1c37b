#pragma once

#include <vector>

#include "engine/config/fields/field.h"
#include "engine/config/gpu_profile.h"

namespace trainer {

/// Every key of a GPU profile.
const std::vector<Field<GpuProfile>>& gpu_profile_fields();

}  // namespace trainer
