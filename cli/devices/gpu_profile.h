#pragma once

#include <string>
#include <vector>

#include "engine/config/gpu_profile.h"
#include "engine/report/text/style.h"

namespace trainer {

/// The profile that `--gpu` names: a path (with a '/' or ending in .yaml), else a file of configs/gpus/ without its
/// ending. Throws ConfigError, which lists the names there are.
GpuProfile find_gpu_profile(const std::string& name_or_path);

/// All files of configs/gpus/, by name. The folder is sought below the working directory, in the repository that the
/// executable was built in, and in share/trainer/ beside the executable's folder.
std::vector<GpuProfile> shipped_gpu_profiles();

/// What `--gpu list` prints.
std::string gpu_profile_table(const std::vector<GpuProfile>& profiles, const Style& style);
std::string gpu_profile_json(const std::vector<GpuProfile>& profiles);

}  // namespace trainer
