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

/// All files of configs/gpus/, by name. The folder is sought below the working directory, in the repository that the
/// executable was built in, and in share/trainer/ beside the executable's folder.
std::vector<GpuProfile> shipped_gpu_profiles();

}  // namespace trainer
