#include "engine/train/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/errors.h"
#include "engine/train/durable_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";

/// The step of a checkpoint's folder name, or -1.
std::int64_t step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return -1;
  std::int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + step_prefix.size(), end, step);
  return parsed.ec == std::errc() && parsed.ptr == end && step >= 0 ? step : -1;
}

/// Removes a checkpoint so that no half of it is ever found under its name.
void remove_whole(const fs::path& path) {
  const fs::path aside = path.parent_path() / ("." + path.filename().string() + ".old.tmp");
  std::error_code ignored;
  fs::remove_all(aside, ignored);
  fs::rename(path, aside, ignored);
  fs::remove_all(ignored ? path : aside, ignored);
}

}  // namespace

bool RunDirectory::holds_run() const {
  std::error_code ignored;
  return fs::exists(path_ + "/config.yaml", ignored) || !checkpoint_steps().empty();
}

void RunDirectory::make() const { make_directories_durably(path_); }

void RunDirectory::prepare() const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints_path(), error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name.starts_with(".") && name.ends_with(".tmp")) fs::remove_all(entry.path(), ignored);
  }
}

void RunDirectory::remove_run() const {
  for (const char* name : {"config.yaml", "events.jsonl", "checkpoints"}) {
    std::error_code error;
    fs::remove_all(fs::path(path_) / name, error);
    if (error) throw DataError(fmt::format("cannot remove {}/{}: {}", path_, name, error.message()));
  }
}

std::vector<std::int64_t> RunDirectory::checkpoint_steps() const {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints_path(), error)) {
    const std::int64_t step = step_of(entry.path().filename().string());
    std::error_code ignored;
    if (step >= 0 && entry.is_directory(ignored)) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string RunDirectory::checkpoint_path(std::int64_t step) const {
  return fmt::format("{}/{}{:08}", checkpoints_path(), step_prefix, step);
}

Checkpoint RunDirectory::newest(bool accept_previous) const {
  std::vector<std::int64_t> steps = checkpoint_steps();
  if (steps.empty()) {
    throw DataError(
        fmt::format("there is no checkpoint under {} to resume from; --overwrite starts anew", checkpoints_path()));
  }
  std::string problem;
  while (!steps.empty()) {
    const std::int64_t step = steps.back();
    steps.pop_back();
    try {
      Checkpoint checkpoint = read_checkpoint(checkpoint_path(step));
      checkpoint.skipped = problem;
      return checkpoint;
    } catch (const DataError& error) {
      if (problem.empty()) problem = error.what();
      if (accept_previous) continue;
      if (steps.empty()) throw;
      throw DataError(
          fmt::format("{}; --accept-previous goes on from an older one (newest: step {})", problem, steps.back()));
    }
  }
  throw DataError(fmt::format("{}; no older checkpoint can be used either", problem));
}

void RunDirectory::settle(std::int64_t step, std::int64_t best_step, std::int64_t keep) const {
  const auto name = [](std::int64_t named) { return fmt::format("{}{:08}", step_prefix, named); };
  std::vector<std::int64_t> steps = checkpoint_steps();
  point_link(checkpoints_path() + "/latest", name(step));
  if (std::binary_search(steps.begin(), steps.end(), best_step)) {
    point_link(checkpoints_path() + "/best", name(best_step));
  }
  sync_directory(checkpoints_path());
  for (; !steps.empty() && steps.back() > step; steps.pop_back()) remove_whole(checkpoint_path(steps.back()));
  const auto num_kept = static_cast<std::size_t>(std::max<std::int64_t>(keep, 1));
  for (std::size_t i = 0; i + num_kept < steps.size(); ++i) {
    if (steps[i] != best_step) remove_whole(checkpoint_path(steps[i]));
  }
}

void RunDirectory::write_config(const std::string& yaml) const {
  const std::string path = path_ + "/config.yaml";
  write_file_durably(path + ".tmp", yaml);
  replace_durably(path + ".tmp", path);
}

}  // namespace trainer
