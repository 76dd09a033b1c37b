#include "engine/report/live/live_runs.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "engine/errors.h"
#include "engine/train/files/run_lock.h"
#include "engine/train/telling_process.h"
#include "tests/refusal.h"
#include "tests/report/live/recorded_folder.h"

namespace trainer {
namespace {

LiveScene whole_scene(LiveRuns& runs) {
  runs.search();
  CHECK(runs.read(std::chrono::steady_clock::time_point::max()));
  return runs.scene();
}

std::vector<std::string> labels_of(const LiveScene& scene) {
  std::vector<std::string> labels;
  for (const SceneRun& run : scene.runs) labels.push_back(run.label);
  return labels;
}

StartEvent started_at(double seconds, std::int64_t pid = 1, const std::string& host = "") {
  StartEvent start = live_start();
  start.teller = {.pid = pid, .host = host, .begin_seconds = seconds};
  return start;
}

}  // namespace

TEST_CASE("runs are found below a folder, newest first, and new ones by themselves") {
  const FolderOfRuns folder;
  LiveRuns runs({folder.path()});
  CHECK(whole_scene(runs).runs.empty());
  folder.tell("old", started_at(100));
  folder.tell("sweep/lr=0.1", started_at(300));
  folder.tell("sweep/lr=0.2", started_at(200));
  folder.tell(".hidden", started_at(400));
  folder.tell("a/b/c/d/e", started_at(500));
  std::filesystem::create_directory_symlink(folder.of("old"), folder.of("link"));
  CHECK(labels_of(whole_scene(runs)) == std::vector<std::string>{"sweep/lr=0.1", "sweep/lr=0.2", "old"});
  folder.tell("new", started_at(600));
  CHECK(labels_of(whole_scene(runs)).front() == "new");
  std::filesystem::remove_all(folder.of("sweep"));
  CHECK(labels_of(whole_scene(runs)) == std::vector<std::string>{"new", "old"});
}

TEST_CASE("a run that its process holds runs, and one that nobody holds was killed") {
  const FolderOfRuns folder;
  folder.tell("newer", started_at(200, 1, host_name()));
  folder.tell("held", started_at(100, ::getpid(), host_name()));
  folder.tell("elsewhere", started_at(50, 1, "a-machine-of-another-name"));
  folder.tell("empty", "");
  LiveRuns runs({folder.path()});
  {
    const RunLock lock(folder.of("held"));
    const LiveScene scene = whole_scene(runs);
    REQUIRE(labels_of(scene)[0] == "held");
    CHECK(scene.runs[0].state == LiveState::running);
    REQUIRE(scene.runs[0].process);
    CHECK(scene.runs[0].process->pid == ::getpid());
    CHECK(scene.runs[0].process->resident_bytes > 0);
  }
  const LiveScene scene = whole_scene(runs);
  for (const SceneRun& run : scene.runs) {
    INFO(run.label);
    CHECK(run.state == (run.label == "elsewhere" ? LiveState::unknown
                        : run.label == "empty"   ? LiveState::waiting
                                                 : LiveState::killed));
    CHECK_FALSE(run.process);
  }
}

TEST_CASE("how a run ended is told by its end event, also in words of a later trainer") {
  const FolderOfRuns folder;
  const std::vector<std::pair<std::string, LiveState>> ends = {
      {"done", LiveState::done},         {"oom", LiveState::out_of_memory}, {"interrupted", LiveState::interrupted},
      {"diverged", LiveState::diverged}, {"failed", LiveState::failed},     {"resting", LiveState::ended}};
  for (const auto& [status, state] : ends) {
    const std::string name = "run" + std::to_string(static_cast<int>(state));
    folder.tell(name, live_start());
    EndEvent end;
    end.status = status;
    folder.tell(name, end);
    LiveRuns runs({folder.of(name)});
    CHECK(whole_scene(runs).runs.at(0).state == state);
  }
}

TEST_CASE("ranks stand behind their run, in the order of their numbers") {
  const FolderOfRuns folder;
  folder.tell("a", started_at(100));
  for (const int rank : {10, 2, 1}) folder.tell("a/ranks/" + std::to_string(rank), started_at(300));
  folder.tell("a/ranks/x", started_at(300));
  folder.tell("b", started_at(200));
  LiveRuns runs({folder.path()});
  CHECK(labels_of(whole_scene(runs)) == std::vector<std::string>{"b", "a", "rank 1", "rank 2", "rank 10"});
}

TEST_CASE("a file that goes bad is told in its run's place, and the others go on") {
  const FolderOfRuns folder;
  folder.tell("bad", started_at(100));
  folder.tell("bad", std::string("nonsense\n"));
  folder.tell("good", started_at(200));
  LiveRuns runs({folder.path()});
  const LiveScene scene = whole_scene(runs);
  REQUIRE(labels_of(scene) == std::vector<std::string>{"good", "bad"});
  CHECK(scene.runs[1].state == LiveState::damaged);
  CHECK(scene.runs[0].state == LiveState::killed);
}

TEST_CASE("runs are named by folder or file, once each, and what is not there is refused") {
  const FolderOfRuns folder;
  folder.tell("a", started_at(100));
  LiveRuns runs({folder.of("a") + "/events.jsonl", folder.of("a"), folder.of("a") + "/"});
  CHECK(whole_scene(runs).runs.size() == 1);
  CHECK_THAT(refusal_of<DataError>([&] { LiveRuns({folder.of("none")}); }), Catch::Contains("none' is not there"));
  std::ofstream(folder.of("file")) << "x";
  CHECK_THAT(refusal_of<DataError>([&] { LiveRuns({folder.of("file")}); }), Catch::Contains("file' is no run"));
}

TEST_CASE("reading gets through all runs, a piece a call, however late it is") {
  const FolderOfRuns folder;
  constexpr std::size_t num_runs = 5;
  for (std::size_t i = 0; i < num_runs; ++i)
    folder.tell("run" + std::to_string(i), started_at(static_cast<double>(i) + 1));
  LiveRuns runs({folder.path()});
  const auto num_begun = [&] {
    const LiveScene scene = runs.scene();
    return static_cast<std::size_t>(
        std::ranges::count_if(scene.runs, [](const SceneRun& run) { return run.run->has_begun(); }));
  };
  constexpr auto passed = std::chrono::steady_clock::time_point::min();
  for (std::size_t read = 1; read <= num_runs; ++read) {
    runs.search();  // what was read stays read
    CHECK(runs.read(passed, 2) == (read == num_runs));
    CHECK(num_begun() == read);
  }
  // The next pass sees what was told meanwhile.
  for (std::size_t i = 0; i < num_runs; ++i) folder.tell("run" + std::to_string(i), live_step(1));
  std::size_t num_calls = 1;
  while (!runs.read(passed)) ++num_calls;
  CHECK(num_calls == num_runs);
  const LiveScene scene = runs.scene();
  for (const SceneRun& run : scene.runs) CHECK(run.run->last_step());
}

TEST_CASE("a search ends at its limits and says so") {
  const FolderOfRuns folder;
  for (int i = 0; i < 5; ++i) folder.tell("run" + std::to_string(i), started_at(i));
  FoundRuns found = find_run_folders(folder.path(), {.depth = 4, .most_entries = 1000, .most_runs = 2});
  CHECK(found.runs.size() == 2);
  CHECK(found.num_left_out == 3);
  CHECK(found.is_whole);
  found = find_run_folders(folder.path(), {.depth = 4, .most_entries = 3, .most_runs = 100});
  CHECK(found.runs.size() == 3);
  CHECK_FALSE(found.is_whole);
  CHECK(find_run_folders(folder.path(), {.depth = 4, .most_entries = 5, .most_runs = 100}).is_whole);
  CHECK(find_run_folders(folder.path(), {.depth = 0, .most_entries = 10, .most_runs = 100}).runs.empty());
  const RunSearchLimits limits = {.depth = 4, .most_entries = 3, .most_runs = 100};
  LiveRuns some({folder.path()}, limits), one({folder.of("run0")}, limits);
  CHECK_FALSE(whole_scene(some).is_whole);
  CHECK(whole_scene(one).is_whole);
}

TEST_CASE("a search comes to near runs before it looks through what is deep") {
  const FolderOfRuns folder;
  for (int i = 0; i < 3; ++i) {
    const std::string name = std::to_string(i);
    folder.tell("run" + name, started_at(i));
    for (int k = 0; k < 50; ++k)
      std::filesystem::create_directories(folder.of("deep" + name + '/' + std::to_string(k)));
  }
  const FoundRuns found = find_run_folders(folder.path(), {.depth = 4, .most_entries = 20, .most_runs = 100});
  CHECK(found.runs.size() == 3);
  CHECK_FALSE(found.is_whole);
}

TEST_CASE("what the system tells of a process is read past any name it has") {
  const FolderOfRuns folder;
  std::filesystem::create_directories(folder.of("proc/77"));
  std::ofstream(folder.of("proc/77/stat"))
      << "77 (a) b) R 9) S 1 77 77 0 -1 4194304 103 0 0 0 150 50 0 0 20 0 5 0 1000 3133440 407 1844 9\n";
  std::ofstream(folder.of("proc/uptime")) << "30.5 20.0\n";
  const auto usage = process_usage(77, folder.path() + "/");
  REQUIRE(usage);
  CHECK(usage->name == "a) b) R 9");
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  CHECK(usage->cpu_seconds == 200 / ticks);
  CHECK(usage->begin_seconds == 1000 / ticks);
  CHECK(usage->num_threads == 5);
  CHECK(usage->resident_bytes == 407 * ::sysconf(_SC_PAGESIZE));
  CHECK_FALSE(process_usage(78, folder.path() + "/"));
  CHECK(busy_processors(std::nullopt, {.pid = 77, .cpu_seconds = 6, .begin_seconds = 10, .now_seconds = 14}) == 1.5);
  CHECK(busy_processors(ProcessUsage{.pid = 77, .cpu_seconds = 6, .begin_seconds = 10, .now_seconds = 14},
                        {.pid = 77, .cpu_seconds = 9, .begin_seconds = 10, .now_seconds = 15}) == 3);
}

}  // namespace trainer
