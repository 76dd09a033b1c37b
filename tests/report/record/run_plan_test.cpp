#include "engine/report/record/run_plan.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/errors.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

/// With a run's configuration, gone with the test.
class PlannedRunFolder : public TemporaryFolder {
 public:
  void write_config(const std::string& text) const { std::ofstream(*this / "config.yaml") << text; }
};

/// A machine on which no run could go on.
class NoDevices final : public DeviceSource {
 public:
  std::unique_ptr<Device> make(const Experiment&) const override { throw DeviceError("there is none"); }
  std::unique_ptr<DeviceModel> describe(const GpuProfile&, const Experiment&) const override {
    throw DeviceError("there is none");
  }
  int usable_threads() const override { return 1; }
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
  RunRecord run = run_in(folder.path());
  folder.write_config("name: filed\n");
  const PlanRequest told = plan_request_of_run(run, {}, NoDevices());
  CHECK(told.experiment.name == "told");
  CHECK(told.experiment.train.batch_size.number() == 7);
  CHECK(told.experiment.device.type == DeviceType::cpu);
  CHECK(told.config_path == folder.path() + "/config.yaml");  // to be pasted
  CHECK(told.gpus.empty());
  CHECK(told.capacities.empty());
  CHECK(told.capacity_of_run == 12'345'678);
  const PlanRequest changed = plan_request_of_run(run, {.overrides = {"train.batch_size=9"}}, NoDevices());
  CHECK(changed.experiment.train.batch_size.number() == 9);
  run.config["train"]["batch_size"] = "auto";
  run.batch_size = 24;
  CHECK(plan_request_of_run(run, {}, NoDevices()).experiment.train.batch_size.number() == 24);
}

TEST_CASE("A run on a GPU with a profile is planned for that, and what is asked comes first") {
  const PlannedRunFolder folder;
  RunRecord run = run_in(folder.path());
  run.device_kind = "cuda";
  run.device_name = "NVIDIA GeForce RTX 3060";
  const PlanRequest its_own = plan_request_of_run(run, {}, NoDevices());
  CHECK(its_own.gpus == std::vector<std::string>{"rtx3060-12gb"});
  CHECK(its_own.capacity_of_run == 12'345'678);
  const PlanRequest another = plan_request_of_run(run, {.gpu = "t4"}, NoDevices());
  CHECK(another.gpus == std::vector<std::string>{"t4"});
  CHECK_FALSE(another.capacity_of_run);
  const PlanRequest smaller = plan_request_of_run(run, {.capacity = "1GiB"}, NoDevices());
  CHECK(smaller.capacities == std::vector<std::string>{"1GiB"});
  CHECK_FALSE(smaller.capacity_of_run);
  run.device_name = "a GPU of tomorrow";
  CHECK_THAT(refusal_of<DeviceError>([&] { plan_request_of_run(run, {}, NoDevices()); }),
             Catch::Contains("a GPU of tomorrow, is not here"));
}

TEST_CASE("A stage of a run is found by its name, and a rank by its folder") {
  const PlannedRunFolder folder;
  RunRecord run = run_in(folder.path());
  run.config["stages"] = Json::array({{{"name", "head"}}, {{"name", "body"}, {"train.batch_size", 3}}});
  CHECK(plan_request_of_run(run, {.stage = "body"}, NoDevices()).experiment.train.batch_size.number() == 3);
  CHECK_THROWS_AS(plan_request_of_run(run, {.stage = "tail"}, NoDevices()), ConfigError);
  CHECK(rank_of_folder("runs/a") == 0);
  CHECK(rank_of_folder("runs/a/ranks/12") == 12);
  CHECK(rank_of_folder("runs/a/ranks/12/") == 12);
  CHECK(rank_of_folder("runs/ranks/x1") == 0);
  // From inside.
  const fs::path here = fs::current_path();
  fs::create_directories(folder.path() + "/ranks/3");
  fs::current_path(folder.path() + "/ranks/3");
  const std::int64_t inside = rank_of_folder(""), dot = rank_of_folder(".");
  fs::current_path(here);
  CHECK(inside == 3);
  CHECK(dot == 3);
}

}  // namespace trainer
