#include "engine/report/live/run_folders.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

struct DatedFolder {
  fs::file_time_type time;
  std::string path;
};

class RunSearch {
 public:
  explicit RunSearch(const RunSearchLimits& limits) : limits_(limits), entries_left_(limits.most_entries) {}

  /// What is near is looked at before what is deep, so that one deep folder does not use up the limit of its
  /// neighbours.
  void look(const fs::path& folder) {
    std::vector<fs::path> folders{folder};
    for (int depth = limits_.depth; depth >= 0 && !folders.empty(); --depth) {
      std::vector<fs::path> below;
      for (const fs::path& each : folders)
        if (!take_run(each) && depth > 0) add_folders_in(each, below);
      folders = std::move(below);
    }
  }

  FoundRuns take() {
    std::ranges::sort(found_, [](const DatedFolder& a, const DatedFolder& b) {
      return a.time != b.time ? a.time > b.time : a.path < b.path;
    });
    FoundRuns result{.runs = {}, .num_left_out = 0, .is_whole = is_whole_};
    if (found_.size() > limits_.most_runs) {
      result.num_left_out = found_.size() - limits_.most_runs;
      found_.resize(limits_.most_runs);
    }
    for (const DatedFolder& folder : found_)
      for (RunFolder& run : with_ranks(folder.path)) result.runs.push_back(std::move(run));
    return result;
  }

 private:
  /// Whether there is one.
  bool take_run(const fs::path& folder) {
    std::error_code error;
    const fs::path events = folder / events_file;
    if (!fs::is_regular_file(events, error)) return false;
    const fs::file_time_type time = fs::last_write_time(events, error);
    if (!error) found_.push_back({time, folder.string()});
    return true;
  }

  void add_folders_in(const fs::path& folder, std::vector<fs::path>& folders) {
    if (!is_whole_) return;
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      if (entries_left_ == 0) {
        is_whole_ = false;
        return;
      }
      --entries_left_;
      std::error_code ignored;
      if (!entry->is_directory(ignored) || entry->is_symlink(ignored)) continue;
      if (!entry->path().filename().string().starts_with('.')) folders.push_back(entry->path());
    }
  }

  const RunSearchLimits& limits_;
  std::size_t entries_left_;
  bool is_whole_ = true;
  std::vector<DatedFolder> found_;
};

/// 0 where the name is no number of a rank.
std::int64_t rank_of(const std::string& name) {
  constexpr std::int64_t most_ranks = 1 << 20;
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  const bool is_number = error == std::errc{} && end == name.data() + name.size();
  return is_number && rank > 0 && rank <= most_ranks ? rank : 0;
}

}  // namespace

bool holds_events(const std::string& folder) {
  std::error_code ignored;
  return fs::is_regular_file(fs::path(folder) / events_file, ignored);
}

std::vector<RunFolder> with_ranks(const std::string& folder) {
  constexpr std::size_t most_shown_ranks = 64;
  std::vector<RunFolder> folders;
  std::error_code error;
  fs::directory_iterator entry(fs::path(folder) / ranks_folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::int64_t rank = rank_of(entry->path().filename().string());
    if (rank > 0 && holds_events(entry->path().string())) folders.push_back({entry->path().string(), rank});
  }
  std::ranges::sort(folders, {}, &RunFolder::rank);
  if (folders.size() > most_shown_ranks) folders.resize(most_shown_ranks);
  folders.insert(folders.begin(), RunFolder{folder, 0});
  return folders;
}

FoundRuns find_run_folders(const std::string& folder, const RunSearchLimits& limits) {
  RunSearch search(limits);
  search.look(folder);
  return search.take();
}

}  // namespace trainer
