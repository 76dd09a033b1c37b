#pragma once

#include <string>
#include <vector>

#include "engine/config/gpu_profile.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What `--gpu list` prints.
std::string gpu_profile_table(const std::vector<GpuProfile>& profiles, const Style& style);
std::string gpu_profile_json(const std::vector<GpuProfile>& profiles);

}  // namespace trainer
