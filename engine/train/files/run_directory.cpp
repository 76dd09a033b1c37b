#include "engine/train/files/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/errors.h"
#include "engine/train/agreement.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/replaced_run.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view tensorboard_prefix = "events.out.tfevents.", tensorboard_suffix = ".trainer";
constexpr const char* latest_link = "latest";
constexpr const char* best_link = "best";

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}", step_prefix, step); }

/// The step of a checkpoint's folder name, or -1.
std::int64_t step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return -1;
  std::int64_t step = -1;
  const auto parsed = std::from_chars(name.data() + step_prefix.size(), name.data() + name.size(), step);
  return parsed.ec == std::errc() && step >= 0 && name == checkpoint_name(step) ? step : -1;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// What a run that was killed was writing, or removing: ".step-00000004.1234.tmp", ".latest.tmp".
bool is_unfinished(const std::string& name) {
  if (!name.ends_with(".tmp")) return false;
  return name.starts_with(fmt::format(".{}", step_prefix)) || name.starts_with(fmt::format(".{}.", latest_link)) ||
         name.starts_with(fmt::format(".{}.", best_link));
}

/// Whether there is nothing under the path that runs could not have written, which begins so; what is no file, a pipe,
/// keeps nothing.
bool may_be_own(const std::string& path, std::string_view beginning) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return true;
  std::string found(beginning.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(found.data(), static_cast<std::streamsize>(found.size()));
  return beginning.starts_with(found.substr(0, static_cast<std::size_t>(file.gcount())));
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

std::vector<std::string> own_checkpoint_entries(const std::string& checkpoints) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    const bool is_link = (name == latest_link || name == best_link) && entry.is_symlink(ignored);
    if (is_link || step_of(name) >= 0) names.push_back(name);
  }
  return names;
}

std::string tensorboard_file(std::int64_t second) {
  return fmt::format("{}{:010}{}", tensorboard_prefix, second, tensorboard_suffix);
}

std::int64_t second_of_tensorboard_file(const std::string& name) {
  if (!name.starts_with(tensorboard_prefix) || !name.ends_with(tensorboard_suffix)) return -1;
  std::int64_t second = -1;
  const auto parsed = std::from_chars(name.data() + tensorboard_prefix.size(), name.data() + name.size(), second);
  return parsed.ec == std::errc() && second >= 0 && name == tensorboard_file(second) ? second : -1;
}

std::vector<std::string> tensorboard_files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    std::string name = entry.path().filename().string();
    if (second_of_tensorboard_file(name) >= 0) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> own_files_in(const std::string& folder) {
  std::vector<std::string> names = tensorboard_files_in(folder);
  names.insert(names.begin(), own_run_files.begin(), own_run_files.end());
  return names;
}

std::string folder_of_rank(const std::string& run, std::int64_t rank) {
  return rank == 0 ? run : fmt::format("{}/{}/{}", run, ranks_folder, rank);
}

bool RunDirectory::holds_run() const {
  return exists(path_ + "/" + config_file) || !checkpoint_steps().empty() || ReplacedRun(path_).is_aside();
}

void RunDirectory::check_files() const {
  const std::string events = path_ + "/" + events_file, config = path_ + "/" + config_file;
  const auto check_is_own = [](const std::string& file, std::string_view beginning, const char* what) {
    if (!may_be_own(file, beginning))
      throw DataError(fmt::format(
          "{} was not written by trainer, and {} would replace it; output=FOLDER writes elsewhere", file, what));
  };
  check_is_own(events, R"({"event":")", "the run's events");
  check_is_own(out_of_memory_path(), out_of_memory_words, "the report of an out-of-memory");
  check_is_own(skipped_samples_path(), skipped_samples_words, "the list of skipped samples");
  if (exists(config) && !exists(events) && checkpoint_steps().empty()) {
    throw DataError(
        fmt::format("{} is not of a run: there are neither events nor checkpoints beside it; move it away, or write "
                    "elsewhere with output=FOLDER",
                    config));
  }
}

void RunDirectory::prepare() const {
  const ReplacedRun replaced(path_);
  replaced.recover();
  recover_replaced(checkpoints_path());
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints_path(), error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (is_unfinished(name)) fs::remove_all(entry.path(), ignored);
  }
  if (!replaced.is_aside()) return;
  if (checkpoint_steps().empty())
    replaced.bring_back();
  else
    replaced.remove();
}

void RunDirectory::remove_run() const {
  const auto remove = [](const std::string& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) throw DataError(fmt::format("cannot remove {}: {}", path, error.message()));
  };
  for (const std::string& name : own_files_in(path_)) remove(path_ + "/" + name);
  remove_ranks(0);
  for (const std::string& name : own_checkpoint_entries(checkpoints_path())) remove(checkpoints_path() + "/" + name);
  std::error_code not_empty;
  fs::remove(checkpoints_path(), not_empty);
}

void RunDirectory::remove_ranks(std::int64_t first) const {
  const fs::path ranks = fs::path(path_) / ranks_folder;
  std::error_code none;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(ranks, none)) {
    const std::string name = entry.path().filename().string();
    std::int64_t rank = -1;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), rank);
    if (parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() && rank >= first)
      folders.push_back(entry.path());
  }
  for (const fs::path& folder : folders) {
    for (const char* name : own_run_files) fs::remove(folder / name, none);
    fs::remove(folder, none);  // where it is empty
  }
  if (first <= 1) fs::remove(ranks, none);  // others make theirs in it
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
  return fmt::format("{}/{}", checkpoints_path(), checkpoint_name(step));
}

Checkpoint RunDirectory::newest(bool accept_previous, Communicator* ranks) const {
  // Of rank 0: on a network's file system another may not see the newest yet, and they read the same ones together.
  std::vector<std::int64_t> steps = checkpoint_steps();
  if (ranks != nullptr) {
    std::istringstream told(text_of_rank(*ranks, 0, fmt::format("{}", fmt::join(steps, " "))));
    steps.assign(std::istream_iterator<std::int64_t>(told), {});
  }
  if (steps.empty()) {
    throw DataError(fmt::format("there is no checkpoint under {} to resume from; without --resume the run starts anew",
                                checkpoints_path()));
  }
  std::string problem;
  while (!steps.empty()) {
    const std::int64_t step = steps.back();
    steps.pop_back();
    try {
      Checkpoint checkpoint = read_checkpoint(checkpoint_path(step), ranks);
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
  std::vector<std::int64_t> steps = checkpoint_steps();
  point_link(fmt::format("{}/{}", checkpoints_path(), latest_link), checkpoint_name(step));
  if (std::binary_search(steps.begin(), steps.end(), best_step)) {
    point_link(fmt::format("{}/{}", checkpoints_path(), best_link), checkpoint_name(best_step));
  } else if (best_step < 0) {  // of a stage that has none yet; one of a stage before may go
    std::error_code ignored;
    std::filesystem::remove(fmt::format("{}/{}", checkpoints_path(), best_link), ignored);
  }
  sync_directory(checkpoints_path());
  for (; !steps.empty() && steps.back() > step; steps.pop_back()) remove_whole(checkpoint_path(steps.back()));
  const auto num_kept = static_cast<std::size_t>(std::max<std::int64_t>(keep, 1));
  for (std::size_t i = 0; i + num_kept < steps.size(); ++i) {
    if (steps[i] != best_step) remove_whole(checkpoint_path(steps[i]));
  }
  if (const ReplacedRun replaced(path_); replaced.is_aside()) replaced.remove();
}

void RunDirectory::write_out_of_memory(const std::string& report) const {
  if (may_be_own(out_of_memory_path(), out_of_memory_words)) write_file_durably(out_of_memory_path(), report);
}

void RunDirectory::remove_out_of_memory() const {
  std::error_code ignored;
  if (may_be_own(out_of_memory_path(), out_of_memory_words)) fs::remove(out_of_memory_path(), ignored);
}

void RunDirectory::write_skipped_samples(const std::vector<std::string>& reasons) const {
  std::string text = fmt::format("{}: {}\n", skipped_samples_words, reasons.size());
  for (const std::string& reason : reasons) text += reason + "\n";
  if (may_be_own(skipped_samples_path(), skipped_samples_words)) write_file_durably(skipped_samples_path(), text);
}

void RunDirectory::write_config(const std::string& yaml) const {
  const std::string path = fmt::format("{}/{}", path_, config_file);
  write_file_durably(path + ".tmp", yaml);
  replace_durably(path + ".tmp", path);
}

}  // namespace trainer
