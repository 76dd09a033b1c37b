#include <catch2/catch.hpp>
#include <csignal>

#include "cli/device_factory.h"
#include "engine/config/load_experiment.h"
#include "engine/findings/find_fit.h"
#include "engine/findings/find_plan.h"
#include "tests/cli/process.h"

namespace trainer {

namespace {

constexpr const char* planned_config = TRAINER_SOURCE_DIR "/configs/quickstart.yaml";

/// Waits for so many plans, and no longer.
class ImpatientWatch final : public PlanningWatch {
 public:
  explicit ImpatientWatch(int most_plans) : most_plans_(most_plans) {}

  bool is_interrupted() override { return ++num_plans_ > most_plans_; }
  void plans_for(const std::string& what) override { told_.push_back(what); }
  void planned(std::int64_t value, bool fits) override {
    if (fits) largest_fitting_ = std::max(largest_fitting_, value);
  }

  const std::vector<std::string>& told() const { return told_; }
  std::int64_t largest_fitting() const { return largest_fitting_; }

 private:
  const int most_plans_;
  int num_plans_ = 0;
  std::vector<std::string> told_;
  std::int64_t largest_fitting_ = 0;
};

}  // namespace

TEST_CASE("a comparison that is interrupted has what was planned, and says what was not") {
  ImpatientWatch watch(2);
  PlanRequest request;
  request.config_path = planned_config;
  request.experiment = load_experiment(planned_config, {});
  request.capacities = {"1GiB", "2GiB", "3GiB", "4GiB"};
  request.watch = &watch;
  const PlanComparison comparison = compare_targets(request, MachineDevices(), [](const std::string&) {});
  CHECK(comparison.is_interrupted);
  REQUIRE(comparison.targets.size() == 4);
  CHECK(std::count_if(comparison.targets.begin(), comparison.targets.end(),
                      [](const PlannedTarget& target) { return target.problem.empty() && target.fits; }) == 2);
  CHECK(std::count_if(comparison.targets.begin(), comparison.targets.end(), [](const PlannedTarget& target) {
          return target.problem == "not planned, since it was interrupted";
        }) == 2);
  CHECK(watch.told().front() == "1GiB, 1 of 4");
  CHECK(watch.told().back() == "4GiB, 4 of 4");
}

TEST_CASE("a search that is interrupted has told which value fits") {
  ImpatientWatch watch(6);
  FitRequest request{
      .config_path = planned_config, .overrides = {}, .gpu = "", .capacity = "16MiB", .max = "train.batch_size"};
  request.watch = &watch;
  CHECK_THROWS_AS(find_fit(request, MachineDevices(), [](const std::string&) {}), PlanningInterrupted);
  CHECK(watch.largest_fitting() >= 2);
  // Which does, though not everything below it may.
  PlanRequest told;
  told.config_path = planned_config;
  told.experiment = load_experiment(planned_config, {"train.batch_size=" + std::to_string(watch.largest_fitting())});
  told.capacities = {"16MiB", "1GiB"};
  const PlanComparison comparison = compare_targets(told, MachineDevices(), [](const std::string&) {});
  CHECK(comparison.targets.at(0).fits);
}

TEST_CASE("a long search shows on a terminal what it plans, and ends at SIGINT with what is known") {
  bool is_stopped = false;
  const ProcessResult result =
      run_trainer({"fit", "configs/cifar10_resnet18.yaml", "--capacity", "6GiB", "--max", "train.batch_size=1..40000",
                   "train.checkpointing=auto"},
                  {.terminal_columns = 80, .on_output = [&](pid_t process, const std::string& out) {
                     if (is_stopped || out.find("planning ") == std::string::npos) return;
                     is_stopped = true;
                     kill(process, SIGINT);
                   }});
  INFO(result.out);
  REQUIRE(is_stopped);
  CHECK(result.exit_code == 75);
  CHECK_THAT(result.out, Catch::Contains("Ctrl-C ends it with what is known"));
  CHECK_THAT(result.out, Catch::Contains("interrupted"));
}

}  // namespace trainer
