#include "engine/train/measure/range_test.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "engine/plan/search/settle_experiment.h"
#include "engine/train/files/initial_weights.h"
#include "engine/train/measure/range_test_run.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {
namespace {

/// Whose smoothed losses are these.
std::vector<double> losses_for(const std::vector<double>& smoothed) {
  std::vector<double> losses;
  double average = 0, weight = 1;
  for (const double value : smoothed) {
    weight *= 0.98;
    const double next = value * (1 - weight);
    losses.push_back((next - 0.98 * average) / 0.02);
    average = next;
  }
  return losses;
}

/// With 5 more losses, which are not judged; 9 steps leave out none of the first.
RangeTest test_of(std::vector<double> smoothed) {
  smoothed.insert(smoothed.end(), 5, smoothed.back());
  RangeTest test({.from = 1, .to = 1e9, .steps = 9});
  for (const double loss : losses_for(smoothed)) test.add(loss);
  return test;
}

RangeTestRun ranged(const TestRun& run, const RangeTestOptions& options, const WeightFiles* weights = nullptr,
                    std::int64_t stop_behind = 0) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Experiment tested =
      with_range_test(settle_experiment(run.experiment, run.data.description, *device, 1 << 30), options.steps);
  const CompiledExperiment compiled = compile_experiment(tested, run.data.description, *device, 1 << 30);
  Interruption interruption;
  RangeTestRun result =
      run_range_test(compiled, run.data, *device, 1 << 30, weights, options, interruption, [&](const RangeTest& test) {
        if (static_cast<std::int64_t>(test.losses().size()) == stop_behind) interruption.requests = 1;
      });
  // What is held is what the plan says.
  const MemoryPlan plan = plan_memory(compiled, 1 << 30);
  CHECK(result.memory.peak_allocated == plan.peak.allocated);
  return result;
}

}  // namespace

TEST_CASE("rates of a range test grow by the same factor from the first on, and end a step below the last") {
  const RangeTestOptions options{.from = 1e-7, .to = 10, .steps = 100};
  CHECK(range_test_rate(options, 1) == 1e-7);
  CHECK(range_test_rate(options, 51) == Approx(1e-3).epsilon(1e-12));
  CHECK(range_test_rate(options, 101) == Approx(10).epsilon(1e-12));
  for (int step = 2; step <= 100; ++step)
    CHECK(range_test_rate(options, step) / range_test_rate(options, step - 1) == Approx(std::pow(10, 0.08)));
}

TEST_CASE("losses are smoothed without their start, as fastai smooths them") {
  RangeTest test({.from = 1, .to = 2, .steps = 20});
  test.add(3);
  test.add(1);
  test.add(2);
  REQUIRE(test.smoothed().size() == 3);
  CHECK(test.smoothed()[0] == Approx(3).epsilon(1e-12));
  CHECK(test.smoothed()[1] == Approx((0.98 * 3 + 1) / 1.98).epsilon(1e-12));
  CHECK(test.smoothed()[2] == Approx((0.98 * 0.98 * 3 + 0.98 * 1 + 2) / (0.98 * 0.98 + 0.98 + 1)).epsilon(1e-12));
}

TEST_CASE("a range test ends behind its steps, behind four times the lowest loss, or before one that is not finite") {
  RangeTest finished({.from = 1, .to = 2, .steps = 3});
  CHECK(finished.add(1));
  CHECK(finished.add(1));
  CHECK_FALSE(finished.add(1));
  CHECK(finished.end() == RangeTestEnd::finished);

  RangeTest risen({.from = 1, .to = 2, .steps = 50});
  CHECK(risen.add(1));
  CHECK(risen.add(6.9));  // the average is below 4
  CHECK_FALSE(risen.add(40));
  CHECK(risen.end() == RangeTestEnd::rose);
  CHECK(risen.losses().size() == 3);

  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    RangeTest broken({.from = 1, .to = 2, .steps = 50});
    CHECK(broken.add(1));
    CHECK_FALSE(broken.add(loss));
    CHECK(broken.end() == RangeTestEnd::not_finite);
    CHECK(broken.losses().size() == 1);
    CHECK_FALSE(broken.suggestions().minimum);
  }
}

TEST_CASE("suggestions are those that fastai makes of the same losses") {
  SECTION("a fall without an end: half through it") {
    const RangeTest test = test_of({9, 8, 7, 6, 5, 4, 3.9, 3.8, 3.7});
    const SuggestedRates suggested = test.suggestions();
    REQUIRE(suggested.valley);
    CHECK(suggested.valley->place == 3);  // 8 - 9 + 3 + 1
    CHECK(suggested.valley->rate == Approx(1e3));
    CHECK(suggested.steepest->place == 0);
    CHECK(suggested.minimum->place == 8);
    CHECK(suggested.minimum->rate == Approx(1e7));
  }
  SECTION("what rises in between belongs to the longest fall only where it is part of one") {
    const RangeTest test = test_of({6, 7, 5.9, 8, 5.5, 5, 5.2, 3, 3.5, 3.4});
    const SuggestedRates suggested = test.suggestions();
    // 7, 5.9, 5.5, 5.2, 3.5, 3.4: longer than 7, 5.9, 5.5, 5, 3.
    CHECK(suggested.valley->place == 6);  // 9 - 6 + 2 + 1
    CHECK(suggested.steepest->place == 3);
    CHECK(suggested.minimum->place == 7);
  }
  SECTION("a fall of two at the beginning: the first rate") {
    CHECK(test_of({2, 1, 1.5, 2, 3}).suggestions().valley->place == 0);
  }
  SECTION("a loss that never falls") {
    const SuggestedRates suggested = test_of({1, 1.5, 2, 2, 3}).suggestions();
    CHECK_FALSE(suggested.valley);
    CHECK_FALSE(suggested.steepest);
    CHECK(suggested.minimum->place == 0);
  }
  SECTION("the first tenth of the steps and the last five losses are not looked at") {
    RangeTest test({.from = 1, .to = 1e9, .steps = 30});
    // The 3 losses in front and 5 behind hold the lowest ones.
    for (const double loss : losses_for({1, 1, 0.9, 3, 2, 2.5, 2.4, 0.8, 0.8, 0.8, 0.8, 0.8})) test.add(loss);
    CHECK(test.num_judged() == 4);
    const SuggestedRates suggested = test.suggestions();
    CHECK(suggested.minimum->place == 4);
    CHECK(suggested.steepest->place == 3);
  }
}

TEST_CASE("a range test trains as a run does, step by step, but for the learning rate") {
  const OutputFolder folder;
  for (const std::vector<std::string>& set : std::vector<std::vector<std::string>>{
           {},
           {"train.accumulation_steps=1", "train.clip_norm=0.1", "optimizer.type=sgd", "optimizer.momentum=0.9"},
           {"train.amp=bf16"},
           {"train.amp=fp16", "memory.allocator=planned"}}) {
    INFO((set.empty() ? "as it is" : set.front()));
    std::vector<std::string> constant = set;
    constant.insert(constant.end(), {"schedule={type: constant}", "optimizer.lr=0.01", "train.steps=20"});
    TestRun run(small_experiment, folder.path("run"), constant);
    run.options.overwrite = true;
    REQUIRE(run() == RunStatus::done);
    // Neither the schedule nor evaluations, which the experiment has, take part.
    const TestRun tested(small_experiment, folder.path("none"), set);
    const RangeTestRun result = ranged(tested, {.from = 0.01, .to = 0.01, .steps = 20});
    REQUIRE(result.test.losses().size() == 20);
    for (std::size_t i = 0; i < 20; ++i) CHECK(result.test.losses()[i] == run.events.steps[i].loss);
    CHECK(result.test.end() == RangeTestEnd::finished);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path("none")));
}

TEST_CASE("a range test begins with weights that a run has saved") {
  const OutputFolder folder;
  TestRun first(small_experiment, folder.path("first"), {"train.steps=20"});
  REQUIRE(first() == RunStatus::done);
  const std::vector<std::string> again = {"weights.file=" + folder.path("first"), "schedule={type: constant}",
                                          "train.steps=3"};
  TestRun run(small_experiment, folder.path("second"), again);
  REQUIRE(run() == RunStatus::done);
  const TestRun tested(small_experiment, folder.path("none"), again);
  const WeightFiles files(initial_weights_file(folder.path("first")));
  const RangeTestRun result = ranged(tested, {.from = 0.01, .to = 0.01, .steps = 3}, &files);
  REQUIRE(result.test.losses().size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(result.test.losses()[i] == run.events.steps[i].loss);
}

TEST_CASE("updates that a loss scale skips are counted, and a test goes on") {
  const OutputFolder folder;
  const TestRun tested(small_experiment, folder.path("none"),
                       {"train.amp=fp16", "train.loss_scale.initial=1e9", "optimizer.type=sgd"});
  const RangeTestRun result = ranged(tested, {.from = 1e-5, .to = 1e-3, .steps = 30});
  CHECK(result.skipped_updates > 0);
  CHECK(result.test.losses().size() == 30);
}

TEST_CASE("rates that are too high end a test, and so does who watches it") {
  const OutputFolder folder;
  const TestRun tested(small_experiment, folder.path("none"), {"optimizer.type=sgd"});
  const RangeTestRun wild = ranged(tested, {.from = 1e-3, .to = 1e20, .steps = 60});
  CHECK((wild.test.end() == RangeTestEnd::rose || wild.test.end() == RangeTestEnd::not_finite));
  CHECK(wild.test.losses().size() < 60);
  const RangeTestRun stopped = ranged(tested, {.from = 1e-5, .to = 1e-3, .steps = 60}, nullptr, 7);
  CHECK(stopped.test.end() == RangeTestEnd::interrupted);
  CHECK(stopped.test.losses().size() == 7);
}

}  // namespace trainer
