#include "engine/report/live/live_runs.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "engine/errors.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/files/run_lock.h"
#include "engine/train/telling_process.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* usual_folder = "runs";
constexpr std::int64_t bytes_at_once = std::int64_t{1} << 20;

LiveState state_in_words(const std::string& status) {
  for (const LiveState state :
       {LiveState::done, LiveState::out_of_memory, LiveState::interrupted, LiveState::diverged, LiveState::failed})
    if (status == name_of(state)) return state;
  return LiveState::ended;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string clock_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  return localtime_r(&now, &local) == nullptr ? "" : fmt::format("{:%H:%M:%S}", local);
}

}  // namespace

LiveRuns::LiveRuns(const std::vector<std::string>& paths, const RunSearchLimits& limits)
    : limits_(limits), host_(host_name()) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      throw DataError(fmt::format("'{}' is not there: name the folder of a run, or one below which runs are", path));
    fs::path folder = path;
    if (!fs::is_directory(path, ignored)) {
      if (folder.filename() != events_file)
        throw DataError(fmt::format("'{}' is no run: name its folder, or the {} in it", path, events_file));
      folder = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
    }
    std::string name = folder.lexically_normal().string();
    if (name.size() > 1 && name.ends_with('/')) name.pop_back();
    if (std::ranges::find(roots_, name) == roots_.end()) roots_.push_back(std::move(name));
  }
  if (roots_.empty()) roots_.emplace_back(usual_folder);
}

std::string LiveRuns::label_of(const std::string& root, const RunFolder& folder) const {
  if (folder.rank > 0) return fmt::format("rank {}", folder.rank);
  const fs::path path(folder.path);
  if (folder.path == root || roots_.size() > 1) return path.string();
  return path.lexically_relative(root).string();
}

void LiveRuns::search() {
  std::map<std::string, Watched> before;
  for (Watched& watched : runs_) {
    std::string folder = watched.run->folder();
    before.emplace(std::move(folder), std::move(watched));
  }
  runs_.clear();
  num_left_out_ = 0;
  is_whole_ = true;
  std::set<std::string> taken;
  for (const std::string& root : roots_) {
    const FoundRuns found = find_run_folders(root, limits_);
    num_left_out_ += found.num_left_out;
    is_whole_ = is_whole_ && found.is_whole;
    std::string lead;
    for (const RunFolder& folder : found.runs) {
      if (folder.rank == 0) lead = folder.path;
      if (!taken.insert(folder.path).second) continue;
      Watched watched{.run = nullptr, .lead = lead, .label = label_of(root, folder)};
      if (const auto known = before.find(folder.path); known != before.end()) {
        watched.run = std::move(known->second.run);
        watched.process = known->second.process;
        watched.is_read = known->second.is_read;
      } else {
        watched.run = std::make_unique<LiveRun>(folder.path, folder.rank);
      }
      runs_.push_back(std::move(watched));
    }
  }
}

bool LiveRuns::read(std::chrono::steady_clock::time_point deadline, std::size_t first) {
  bool is_late = false;
  const auto read_one = [&](Watched& watched) {
    while (!watched.is_read && !is_late) {
      watched.run->update(bytes_at_once);
      watched.is_read = !watched.run->has_more();
      is_late = std::chrono::steady_clock::now() >= deadline;
    }
    return watched.is_read;
  };
  if (first < runs_.size()) read_one(runs_[first]);
  if (!std::ranges::all_of(runs_, read_one)) return false;
  for (Watched& watched : runs_) watched.is_read = false;
  return true;
}

LiveState LiveRuns::state_of(const Watched& watched, std::int64_t holder) const {
  const LiveRun& run = *watched.run;
  if (!run.damage().empty()) return LiveState::damaged;
  if (!run.has_begun()) return LiveState::waiting;
  if (!run.end_status().empty()) return state_in_words(run.end_status());
  if (holder > 0) return LiveState::running;
  // Another machine's locks are not seen here.
  return holder < 0 || (!run.host().empty() && run.host() != host_) ? LiveState::unknown : LiveState::killed;
}

LiveScene LiveRuns::scene() {
  const std::optional<HeldFolders> held = HeldFolders::read();
  std::map<std::string, std::int64_t> holders;  // of leads; -1: cannot be asked
  for (const Watched& watched : runs_)
    if (watched.run->rank() == 0) holders[watched.lead] = held ? held->holder_of(watched.lead, watched.run->pid()) : -1;

  struct Placed {
    bool runs = false;
    double begin = 0;
  };
  std::map<std::string, Placed> places;
  std::map<std::string, SceneRun> shown;
  for (Watched& watched : runs_) {
    LiveRun& run = *watched.run;
    const std::int64_t holder = holders[watched.lead];
    SceneRun scene_run{.run = &run, .label = watched.label, .state = state_of(watched, holder)};
    const bool is_lead = run.rank() == 0;
    if (scene_run.state == LiveState::running) {
      // A rank's number is of its own machine; the holder's was found here.
      if (is_lead || run.host() == host_) scene_run.process = process_usage(is_lead ? holder : run.pid());
      if (scene_run.process) scene_run.busy_processors = busy_processors(watched.process, *scene_run.process);
      watched.process = scene_run.process;
    }
    if (is_lead) places[watched.lead] = {scene_run.state == LiveState::running, run.begin_seconds()};
    shown.emplace(run.folder(), std::move(scene_run));
  }
  std::ranges::stable_sort(runs_, [&](const Watched& a, const Watched& b) {
    if (a.lead == b.lead) return a.run->rank() < b.run->rank();
    const Placed &first = places[a.lead], &second = places[b.lead];
    if (first.runs != second.runs) return first.runs;
    return first.begin != second.begin ? first.begin > second.begin : a.lead < b.lead;
  });
  LiveScene scene{.runs = {},
                  .gpus = {},
                  .now_seconds = seconds_now(),
                  .clock = clock_now(),
                  .searched = shell_words(roots_),
                  .num_left_out = num_left_out_,
                  .is_whole = is_whole_};
  for (const Watched& watched : runs_) scene.runs.push_back(std::move(shown.at(watched.run->folder())));
  return scene;
}

}  // namespace trainer
