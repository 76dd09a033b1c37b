#include "cuda/library/cudnn_planner.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/errors.h"

namespace trainer::cuda {

namespace {

namespace fs = std::filesystem;

CudnnPlans h200_plans() {
  std::ifstream file(fs::path(TRAINER_SOURCE_DIR) / "configs/gpus/h200.cudnn.json");
  return CudnnPlans({std::istreambuf_iterator<char>(file), {}});
}

const ConvolutionCall call{.x = {64, 56, 56, 64},
                           .y = {64, 56, 56, 64},
                           .kernel = {3, 3},
                           .padding = {1, 1},
                           .workspace_limit = std::int64_t{96} << 20};

/// A folder that goes with the test.
class Folder {
 public:
  Folder() { fs::remove_all(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file() const { return path_ / "trainer" / "choices.json"; }

 private:
  fs::path path_ = fs::temp_directory_path() / ("cudnn_planner_test." + std::to_string(getpid()));
};

std::optional<std::size_t> prefer_second(const ConvolutionCall&, const std::vector<CudnnPlan>&) { return 1; }

TEST_CASE("a call is planned as cuDNN's heuristics say where nothing is timed") {
  CudnnPlanner planner(h200_plans());
  CHECK(planner.plan(call).engine == h200_plans().find(call, 1)[0].engine);
  CHECK(planner.workspace_bytes(call) == h200_plans().find(call, 1)[0].workspace_bytes);
  CHECK(planner.num_untuned() == 0);
}

TEST_CASE("what was timed once is stored, and is planned elsewhere without timing") {
  const Folder folder;
  const std::string second = h200_plans().find(call, 2)[1].engine;
  CudnnPlanner device(h200_plans(), folder.file(), prefer_second);
  CHECK(device.plan(call).engine == second);
  CHECK(device.num_untuned() == 0);

  CudnnPlanner elsewhere(h200_plans(), folder.file(), {});
  CHECK(elsewhere.plan(call).engine == second);
  CHECK(elsewhere.workspace_bytes(call) == device.workspace_bytes(call));
  CHECK(elsewhere.num_untuned() == 0);
}

TEST_CASE("a call without a choice is left to the heuristics and counted once") {
  const Folder folder;
  CudnnPlanner planner(h200_plans(), folder.file(), {});
  for (int repetition = 0; repetition < 2; ++repetition)
    CHECK(planner.plan(call).engine == h200_plans().find(call, 1)[0].engine);
  CHECK(planner.num_untuned() == 1);

  CudnnPlanner without_room(h200_plans(), folder.file(),
                            [](const ConvolutionCall&, const std::vector<CudnnPlan>&) { return std::nullopt; });
  without_room.plan(call);
  CHECK(without_room.num_untuned() == 1);
  CHECK_FALSE(fs::exists(folder.file()));
}

TEST_CASE("a stored engine that this cuDNN does not offer is timed anew") {
  const Folder folder;
  EngineChoices(folder.file()).store(call, "eng-of-old");
  CudnnPlanner planner(h200_plans(), folder.file(), prefer_second);
  CHECK(planner.plan(call).engine == h200_plans().find(call, 2)[1].engine);
}

TEST_CASE("choices of two processes are both kept") {
  const Folder folder;
  ConvolutionCall other = call;
  other.tf32 = true;
  EngineChoices one(folder.file()), two(folder.file());
  one.store(call, "a");
  two.store(other, "b");
  const EngineChoices all(folder.file());
  CHECK(all.find(call) == "a");
  CHECK(all.find(other) == "b");
  other.workspace_limit = 1;
  CHECK_FALSE(all.find(other));
}

TEST_CASE("a damaged file of choices is an error that says what to do") {
  const Folder folder;
  for (const char* text : {"{", "[]", R"({"call": 1})"}) {
    EngineChoices(folder.file()).store(call, "a");
    std::ofstream(folder.file()) << text;
    CHECK_THROWS_AS(EngineChoices(folder.file()), DataError);
    CHECK_THROWS_WITH(EngineChoices(folder.file()), Catch::Contains("delete it"));
    fs::remove(folder.file());
  }
}

TEST_CASE("choices that cannot be stored are an error that says what to do") {
  EngineChoices choices("/proc/no/such/folder/choices.json");
  CHECK_THROWS_WITH(choices.store(call, "a"), Catch::Contains("XDG_CACHE_HOME"));
}

TEST_CASE("choices are kept for each kind of device and version of cuDNN") {
  REQUIRE(setenv("XDG_CACHE_HOME", "/cache", 1) == 0);
  CHECK(engine_choices_path("NVIDIA H200", 91900) == "/cache/trainer/convolutions-NVIDIA-H200-91900.json");
  REQUIRE(unsetenv("XDG_CACHE_HOME") == 0);
  REQUIRE(setenv("HOME", "/home/someone", 1) == 0);
  CHECK(engine_choices_path("a/b", 91900) == "/home/someone/.cache/trainer/convolutions-a-b-91900.json");
}

}  // namespace

}  // namespace trainer::cuda
