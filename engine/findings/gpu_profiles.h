#pragma once

#include <string>
#include <vector>

#include "engine/config/gpu_profile.h"

namespace trainer {

/// The profile that `--gpu` names: a path (with a '/' or ending in .yaml), else a file of configs/gpus/ without its
/// ending. Throws ConfigError, which lists the names there are.
GpuProfile find_gpu_profile(const std::string& name_or_path);

/// What `--gpu` takes instead of the path of a shipped profile: "h200".
std::string short_name(const GpuProfile& profile);

/// All files of configs/gpus/ (see engine/config/shipped_configs.h), by name.
std::vector<GpuProfile> shipped_gpu_profiles();

}  // namespace trainer
