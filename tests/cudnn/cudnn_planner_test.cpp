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

const ConvolutionCall resnet_call{.x = {64, 56, 56, 64},
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

/// The last of those it is given, of which there must be some.
std::optional<std::size_t> prefer_last(const ConvolutionCall&, const std::vector<CudnnPlan>& plans) {
  REQUIRE(plans.size() > 1);
  return plans.size() - 1;
}

/// Of the heuristics' first eight those that need no more scratch than the first.
std::vector<CudnnPlan> candidates() {
  std::vector<CudnnPlan> plans = h200_plans().find(resnet_call, 8);
  const std::int64_t planned = plans.front().workspace_bytes;
  std::erase_if(plans, [&](const CudnnPlan& plan) { return plan.workspace_bytes > planned; });
  REQUIRE(plans.size() > 1);
  return plans;
}

TEST_CASE("a call is planned as cuDNN's heuristics say where nothing is timed") {
  CudnnPlanner planner(h200_plans());
  CHECK(planner.plan(resnet_call).engine == h200_plans().find(resnet_call, 1)[0].engine);
  CHECK(planner.workspace_bytes(resnet_call) == h200_plans().find(resnet_call, 1)[0].workspace_bytes);
  CHECK(planner.num_untuned() == 0);
}

TEST_CASE("what nothing serves within its limit is told, again and again, and is no error") {
  const Folder folder;
  CudnnPlanner planner(h200_plans(), folder.file(), {});
  CHECK(planner.serves(resnet_call));
  ConvolutionCall refused = resnet_call;
  refused.statistics = true;  // of f32, on a GPU that has statistics of f16
  for (int i = 0; i < 3; ++i) CHECK_FALSE(planner.serves(refused));
  CHECK_THROWS_AS(planner.workspace_bytes(refused), DeviceError);
  ConvolutionCall limited = refused;
  limited.type = DType::f16;
  const std::int64_t num_bytes = planner.workspace_bytes(limited);
  CHECK(planner.serves(limited));
  REQUIRE(num_bytes > 0);
  CHECK(planner.num_untuned() == 2);
  limited.workspace_limit = 0;  // every engine has some scratch
  CHECK_FALSE(planner.serves(limited));
  CHECK(planner.num_untuned() == 2);
}

TEST_CASE("planning times nothing, also where engines are to be timed") {
  const Folder folder;
  CudnnPlanner planner(h200_plans(), folder.file(), [](const ConvolutionCall&, const std::vector<CudnnPlan>&) {
    FAIL("timed");
    return std::nullopt;
  });
  CHECK(planner.plan(resnet_call).engine == candidates()[0].engine);
  CHECK(planner.workspace_bytes(resnet_call) == candidates()[0].workspace_bytes);
  CHECK(planner.num_untuned() == 1);
}

TEST_CASE("what runs is timed once, within the scratch that is planned, which stays") {
  const Folder folder;
  int num_timed = 0;
  CudnnPlanner planner(h200_plans(), folder.file(),
                       [&](const ConvolutionCall& timed, const std::vector<CudnnPlan>& plans) {
                         ++num_timed;
                         CHECK(timed == resnet_call);
                         REQUIRE(plans.size() == candidates().size());
                         for (std::size_t i = 0; i < plans.size(); ++i)
                           CHECK(plans[i].engine == candidates()[i].engine);
                         return prefer_last(timed, plans);
                       });
  const std::int64_t planned = planner.workspace_bytes(resnet_call);
  for (int repetition = 0; repetition < 2; ++repetition) {
    CHECK(planner.plan_to_run(resnet_call).engine == candidates().back().engine);
    CHECK(planner.workspace_bytes(resnet_call) == planned);
    CHECK(planner.plan(resnet_call).engine == candidates().front().engine);
  }
  CHECK(num_timed == 1);
  CHECK(planner.plan_to_run(resnet_call).workspace_bytes <= planned);
}

TEST_CASE("engines that need more scratch than planned are not timed") {
  const Folder folder;
  // Whose first choice with TF32 takes less scratch than others.
  ConvolutionCall other = resnet_call;
  bool some_need_more = false;
  for (const std::int64_t channels : {3, 16, 64, 256}) {
    for (const bool tf32 : {false, true}) {
      other.x[3] = channels;
      other.tf32 = tf32;
      const auto plans = h200_plans().find(other, 8);
      const std::int64_t planned = plans.front().workspace_bytes;
      for (const CudnnPlan& plan : plans) some_need_more = some_need_more || plan.workspace_bytes > planned;
      CudnnPlanner planner(
          h200_plans(), folder.file(),
          [&](const ConvolutionCall&, const std::vector<CudnnPlan>& timed) -> std::optional<std::size_t> {
            for (const CudnnPlan& plan : timed) CHECK(plan.workspace_bytes <= planned);
            return timed.size() - 1;
          });
      CHECK(planner.plan_to_run(other).workspace_bytes <= planned);
    }
  }
  CHECK(some_need_more);
}

TEST_CASE("what was timed once is stored, and is planned and run from then on without timing") {
  const Folder folder;
  const std::string timed = candidates().back().engine;
  CudnnPlanner device(h200_plans(), folder.file(), prefer_last);
  device.plan_to_run(resnet_call);

  CudnnPlanner next(h200_plans(), folder.file(), [](const ConvolutionCall&, const std::vector<CudnnPlan>&) {
    FAIL("timed again");
    return std::nullopt;
  });
  CHECK(next.plan(resnet_call).engine == timed);
  CHECK(next.plan_to_run(resnet_call).engine == timed);
  CudnnPlanner elsewhere(h200_plans(), folder.file(), {});
  CHECK(elsewhere.plan(resnet_call).engine == timed);
  CHECK(elsewhere.workspace_bytes(resnet_call) == next.workspace_bytes(resnet_call));
  CHECK(elsewhere.num_untuned() == 0);
}

TEST_CASE("a call without a choice is left to the heuristics and counted once") {
  const Folder folder;
  CudnnPlanner planner(h200_plans(), folder.file(), {});
  for (int repetition = 0; repetition < 2; ++repetition) {
    CHECK(planner.plan(resnet_call).engine == candidates()[0].engine);
    CHECK(planner.plan_to_run(resnet_call).engine == candidates()[0].engine);
  }
  CHECK(planner.num_untuned() == 1);

  CudnnPlanner without_room(h200_plans(), folder.file(),
                            [](const ConvolutionCall&, const std::vector<CudnnPlan>&) { return std::nullopt; });
  CHECK(without_room.plan_to_run(resnet_call).engine == candidates()[0].engine);
  CHECK(without_room.num_untuned() == 1);
  CHECK_FALSE(fs::exists(folder.file()));
}

TEST_CASE("a stored engine that this cuDNN does not offer is timed anew") {
  const Folder folder;
  EngineChoices(folder.file()).store(text_key(resnet_call), "eng-of-old");
  CudnnPlanner planner(h200_plans(), folder.file(), prefer_last);
  CHECK(planner.plan(resnet_call).engine == candidates()[0].engine);
  CHECK(planner.plan_to_run(resnet_call).engine == candidates().back().engine);
  CHECK(EngineChoices(folder.file()).find(text_key(resnet_call)) == candidates().back().engine);
}

TEST_CASE("choices of two processes are both kept") {
  const Folder folder;
  ConvolutionCall other = resnet_call;
  other.tf32 = true;
  EngineChoices one(folder.file()), two(folder.file());
  one.store(text_key(resnet_call), "a");
  two.store(text_key(other), "b");
  const EngineChoices all(folder.file());
  CHECK(all.find(text_key(resnet_call)) == "a");
  CHECK(all.find(text_key(other)) == "b");
  other.workspace_limit = 1;
  CHECK_FALSE(all.find(text_key(other)));
}

TEST_CASE("a damaged file of choices counts as none, and is replaced by what is timed") {
  const Folder folder;
  const std::string key = text_key(resnet_call);
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text : {std::string("{"), std::string("[]"), std::string(R"({"call": 1})"), std::string(),
                                  "{\"" + key + "\": \"\\u001b[2J\"}", "{\"call\": " + deep + "}", deep}) {
    EngineChoices(folder.file()).store(key, "a");
    std::ofstream(folder.file()) << text;
    EngineChoices choices(folder.file());
    CHECK_FALSE(choices.find(key));
    choices.store(key, "b");
    CHECK(choices.note().empty());
    CHECK(EngineChoices(folder.file()).find(key) == "b");
  }
}

TEST_CASE("properties of a device that are none are told, however they are damaged") {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text : {std::string("{"), std::string("[]"), std::string(R"({"deviceName": 5})"), deep})
    CHECK_THROWS_WITH(device_name_in(text), Catch::Contains("properties of a device for cuDNN"));
  CHECK(device_name_in("{}").empty());
}

TEST_CASE("choices that cannot be stored are used all the same, and a note says what to do") {
  const std::string nowhere = "/proc/no/such/folder/choices.json";
  EngineChoices choices(nowhere);
  CHECK(choices.note().empty());
  choices.store(text_key(resnet_call), "a");
  CHECK(choices.find(text_key(resnet_call)) == "a");
  CHECK_THAT(choices.note(),
             Catch::Contains("not stored") && Catch::Contains(nowhere) && Catch::Contains("XDG_CACHE_HOME"));
  CudnnPlanner planner(h200_plans(), nowhere, prefer_last);
  CHECK(planner.plan_to_run(resnet_call).engine == candidates().back().engine);
  CHECK(planner.plan_to_run(resnet_call).engine == candidates().back().engine);
  CHECK(planner.note() == choices.note());
}

TEST_CASE("a file of choices that is damaged while a process runs is replaced") {
  const Folder folder;
  EngineChoices choices(folder.file());
  choices.store("one", "a");
  std::ofstream(folder.file()) << "{";
  choices.store("two", "b");
  CHECK(choices.note().empty());
  const EngineChoices stored(folder.file());
  CHECK(stored.find("one") == "a");
  CHECK(stored.find("two") == "b");
}

TEST_CASE("choices are kept for each kind of device and version of cuDNN") {
  REQUIRE(setenv("XDG_CACHE_HOME", "/cache", 1) == 0);
  CHECK(engine_choices_path("convolutions", "NVIDIA H200", 91900) ==
        "/cache/trainer/convolutions-NVIDIA-H200-91900.json");
  REQUIRE(unsetenv("XDG_CACHE_HOME") == 0);
  REQUIRE(setenv("HOME", "/home/someone", 1) == 0);
  CHECK(engine_choices_path("convolutions", "a/b", 91900) ==
        "/home/someone/.cache/trainer/convolutions-a-b-91900.json");
}

}  // namespace

}  // namespace trainer::cuda
