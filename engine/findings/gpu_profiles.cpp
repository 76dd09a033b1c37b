#include "engine/findings/gpu_profiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "engine/config/shipped_configs.h"
#include "engine/config/text/nearest_word.h"
#include "engine/errors.h"
#include "engine/findings/gpu_ranks.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> profile_files() {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(find_shipped_config("gpus"), error)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_path(const std::string& text) { return text.find('/') != std::string::npos || text.ends_with(".yaml"); }

}  // namespace

GpuProfile find_gpu_profile(const std::string& name_or_path) {
  if (has_number_of_ranks(name_or_path))
    throw ConfigError(
        fmt::format("--gpu '{}' gives a number of GPUs, which only '{}' and 'fit' of a training run take, "
                    "for ranks that share each batch; leave the '*' and the number out",
                    name_or_path, trainer_command("plan")));
  if (is_path(name_or_path)) return load_gpu_profile(name_or_path);
  std::vector<std::string> names;
  for (const fs::path& file : profile_files()) {
    names.push_back(file.stem().string());
    if (names.back() == name_or_path) return load_gpu_profile(file.string());
  }
  if (names.empty())
    throw ConfigError("no GPU profiles were found (configs/gpus/); --gpu also takes the path of a profile");
  const auto longer =
      std::find_if(names.begin(), names.end(), [&](const std::string& name) { return name.starts_with(name_or_path); });
  const std::string_view near = longer != names.end() && !name_or_path.empty() ? *longer : nearest(name_or_path, names);
  throw ConfigError(
      fmt::format("unknown GPU profile '{}'{}\n  there are: {}; or the path of a file like those in configs/gpus/",
                  name_or_path, near.empty() ? "" : fmt::format("; did you mean '{}'?", near), fmt::join(names, ", ")));
}

std::string short_name(const GpuProfile& profile) { return fs::path(profile.path).stem().string(); }

std::vector<GpuProfile> shipped_gpu_profiles() {
  std::vector<GpuProfile> profiles;
  for (const fs::path& file : profile_files()) profiles.push_back(load_gpu_profile(file.string()));
  return profiles;
}

}  // namespace trainer
