#include "engine/report/record/run_plan.h"

#include <unistd.h>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/errors.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

/// A folder with a run's configuration, gone with the test.
class PlannedRunFolder {
 public:
  PlannedRunFolder() { fs::create_directories(path_); }
  ~PlannedRunFolder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
  void write_config(const std::string& text) const { std::ofstream(path_ / "config.yaml") << text; }

 private:
  fs::path path_ = fs::temp_directory_path() / ("trainer-run-plan-" + std::to_string(::getpid()));
};

RunRecord run_in(const std::string& folder) {
  RunRecord run;
  run.folder = folder;
  run.path = folder + "/events.jsonl";
  run.device_kind = "cpu";
  run.capacity = 12'345'678;
  run.config = Json::parse(
      R"({"name":"told","data":"digits","model":{"layers":["flatten",{"linear":{"out":10}}]},"train":{"batch_size":7}})");
  return run;
}

}  // namespace

TEST_CASE("A run is planned again as it ran: configuration, kind of device and capacity") {
  const PlannedRunFolder folder;
  const RunRecord run = run_in(folder.path());
  const PlanRequest told = plan_request_of_run(run, {});
  CHECK(told.experiment.name == "told");
  CHECK(told.experiment.train.batch_size.number() == 7);
  CHECK(told.experiment.device.type == DeviceType::cpu);
  CHECK(told.config_path == run.path);
  CHECK(told.gpus.empty());
  CHECK(told.capacities == std::vector<std::string>{"12345678"});

  folder.write_config("name: filed\ndata: digits\nmodel: {layers: [flatten, linear: {out: 10}]}\n");
  const PlanRequest filed = plan_request_of_run(run, {.overrides = {"train.batch_size=9"}});
  CHECK(filed.experiment.name == "filed");
  CHECK(filed.experiment.train.batch_size.number() == 9);
  CHECK(filed.config_path == folder.path() + "/config.yaml");
}

TEST_CASE("A run on a GPU with a profile is planned for that, and what is asked comes first") {
  const PlannedRunFolder folder;
  RunRecord run = run_in(folder.path());
  run.device_kind = "cuda";
  run.device_name = "NVIDIA GeForce RTX 3060";
  const PlanRequest its_own = plan_request_of_run(run, {});
  CHECK(its_own.gpus == std::vector<std::string>{"rtx3060-12gb"});
  CHECK(its_own.capacities == std::vector<std::string>{"12345678"});
  const PlanRequest another = plan_request_of_run(run, {.gpu = "t4"});
  CHECK(another.gpus == std::vector<std::string>{"t4"});
  CHECK(another.capacities.empty());
  CHECK(plan_request_of_run(run, {.capacity = "1GiB"}).capacities == std::vector<std::string>{"1GiB"});
  run.device_name = "a GPU of tomorrow";
  CHECK(plan_request_of_run(run, {}).gpus.empty());
}

TEST_CASE("A stage of a run is found by its name, and a rank by its folder") {
  const PlannedRunFolder folder;
  RunRecord run = run_in(folder.path());
  run.config["stages"] = Json::array({{{"name", "head"}}, {{"name", "body"}, {"train.batch_size", 3}}});
  CHECK(plan_request_of_run(run, {.stage = "body"}).experiment.train.batch_size.number() == 3);
  CHECK_THROWS_AS(plan_request_of_run(run, {.stage = "tail"}), ConfigError);
  CHECK(rank_of_run(run) == 0);
  run.folder = "runs/a/ranks/12";
  CHECK(rank_of_run(run) == 12);
  run.folder = "runs/ranks/x1";
  CHECK(rank_of_run(run) == 0);
}

}  // namespace trainer
