#pragma once

#include <filesystem>
#include <string>

namespace trainer {

/// A file or folder that comes with trainer, such as "gpus" or "models/resnet.yaml", by its path below configs/. That
/// folder is sought below the working directory, in the repository that the executable was built in, and in
/// share/trainer/ beside the executable's folder. Empty where none of them has it.
std::filesystem::path find_shipped_config(const std::string& path);

}  // namespace trainer
