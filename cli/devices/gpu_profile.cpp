#include "cli/devices/gpu_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/bytes.h"
#include "engine/config/text/nearest_word.h"
#include "engine/errors.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Empty where there is no such folder.
fs::path profile_folder() {
  std::error_code ignored;
  const fs::path executable_folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& folder :
       {fs::path("configs/gpus"), (executable_folder / "../../configs/gpus").lexically_normal(),
        (executable_folder / "../share/trainer/configs/gpus").lexically_normal()}) {
    if (fs::is_directory(folder, ignored)) return folder;
  }
  return {};
}

/// "h200": what --gpu takes.
std::string short_name(const fs::path& path) { return path.stem().string(); }

std::vector<fs::path> profile_files() {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(profile_folder(), error)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_path(const std::string& text) { return text.find('/') != std::string::npos || text.ends_with(".yaml"); }

std::string format_rate(double teraflops) { return teraflops > 0 ? fmt::format("{:.4g}", teraflops) : "-"; }

}  // namespace

GpuProfile find_gpu_profile(const std::string& name_or_path) {
  if (is_path(name_or_path)) return load_gpu_profile(name_or_path);
  std::vector<std::string> names;
  for (const fs::path& file : profile_files()) {
    names.push_back(short_name(file));
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

std::vector<GpuProfile> shipped_gpu_profiles() {
  std::vector<GpuProfile> profiles;
  for (const fs::path& file : profile_files()) profiles.push_back(load_gpu_profile(file.string()));
  return profiles;
}

std::string gpu_profile_table(const std::vector<GpuProfile>& profiles, const Style& style) {
  TextTable table({{"--gpu", Align::left},
                   {"name", Align::left},
                   {"memory"},
                   {"for tensors"},
                   {"bandwidth"},
                   {"FP32"},
                   {"TF32"},
                   {"FP16"}});
  for (const GpuProfile& profile : profiles) {
    table.add_row({short_name(profile.path), profile.name, format_bytes(profile.total_bytes),
                   format_bytes(profile.free_bytes()), fmt::format("{} GB/s", profile.bandwidth / 1'000'000'000),
                   format_rate(profile.fp32), format_rate(profile.tf32), format_rate(profile.fp16)});
  }
  return table.render(style, 0) +
         wrap(
             "For tensors: what CUDA leaves a process less what its context and libraries hold, an estimate. FP32, "
             "TF32, FP16: peak TFLOP/s without sparsity.",
             static_cast<std::size_t>(style.width)) +
         '\n';
}

std::string gpu_profile_json(const std::vector<GpuProfile>& profiles) {
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
  for (const GpuProfile& profile : profiles) {
    gpus.push_back({{"gpu", short_name(profile.path)},
                    {"name", profile.name},
                    {"compute_capability", profile.compute_capability / 10.0},
                    {"multiprocessors", profile.num_multiprocessors},
                    {"total", profile.total_bytes},
                    {"usable", profile.usable_bytes},
                    {"capacity", profile.free_bytes()},
                    {"bandwidth", profile.bandwidth},
                    {"tflops", {{"fp32", profile.fp32}, {"tf32", profile.tf32}, {"fp16", profile.fp16}}}});
  }
  return nlohmann::ordered_json({{"event", "gpus"}, {"gpus", gpus}}).dump();
}

}  // namespace trainer
