#include <catch2/catch.hpp>

#include <algorithm>

#include "engine/plan/memory_plan.h"
#include "engine/plan/search/choices.h"
#include "engine/plan/search/fixes.h"
#include "tests/techniques/generated_experiments.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

/// The loss of every step; nothing where it does not run to its end.
std::vector<double> losses_of_run(const std::string& yaml, const std::string& output,
                                  std::vector<std::string> overrides, const std::vector<std::string>& set,
                                  Device& device) {
  overrides.insert(overrides.end(), set.begin(), set.end());
  TestRun run(yaml, output, overrides);
  run.options.overwrite = true;
  std::vector<double> losses;
  if (run(device) != RunStatus::done) return losses;
  for (const StepEvent& step : run.events.steps) losses.push_back(step.loss);
  return losses;
}

/// Whether a change kept what it promised of the numbers.
bool keeps(NumbersEffect numbers, const std::vector<double>& expected, const std::vector<double>& losses) {
  if (numbers == NumbersEffect::other) return true;
  if (numbers == NumbersEffect::same_bits) return losses == expected;
  return std::equal(expected.begin(), expected.end(), losses.begin(), losses.end(),
                    [](double a, double b) { return a == Approx(b).epsilon(1e-4); });
}

std::string joined(const std::vector<std::string>& set) {
  std::string text;
  for (const std::string& word : set) text += word + " ";
  return text;
}

}  // namespace

TEST_CASE("every fix and every choice of generated runs without memory enough is pasted, runs, and keeps its promise") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const MachineRates rates = assumed_cpu_rates(1);
  std::mt19937 random(20261121);
  int num_without_memory = 0, num_fixes = 0, num_same = 0, num_choices = 0, num_hopeless = 0;
  const int num_runs = num_generated(40);
  while (num_without_memory < num_runs) {
    const std::string yaml = generated_experiment(random);
    INFO(yaml);
    const TestRun generated(yaml, folder.path("run"));
    const DataDescription& data = generated.data.description;
    Planner planner(*device, rates);
    const Verdict unbounded = planner.plan(generated.experiment, data, unlimited_capacity);
    REQUIRE_FALSE(unbounded.problem.has_value());
    const double share = std::uniform_real_distribution<double>(0.4, 1.0)(random);
    const auto capacity = static_cast<std::int64_t>(share * static_cast<double>(unbounded.peak_reserved));
    if (planner.fits(generated.experiment, data, capacity)) continue;
    ++num_without_memory;
    const std::vector<std::string> limit = {"memory.limit=" + std::to_string(capacity)};
    INFO(limit.front());
    const Experiment limited = parse_experiment(yaml, "test.yaml", limit);
    const Advice advice = find_advice(planner, limited, data, capacity, 2 * unbounded.peak_reserved);
    // The limit can always be raised, and a smaller model always fits but in what no model is small for.
    REQUIRE_FALSE(advice.fixes.empty());
    if (advice.fixes.size() == 1) ++num_hopeless;
    const std::vector<double> expected = losses_of_run(yaml, folder.path("run"), {}, {}, *device);
    const auto check_run = [&](const Change& change) {
      const std::vector<double> losses = losses_of_run(yaml, folder.path("run"), limit, change.set, *device);
      if (losses.empty()) FAIL("it does not run");
      if (!keeps(change.numbers, expected, losses)) FAIL("its numbers are not what is told of them");
      num_same += change.numbers == NumbersEffect::same_bits ? 1 : 0;
    };
    for (const Change& fix : advice.fixes) {
      INFO(joined(fix.set));
      REQUIRE(fix.fits);
      REQUIRE(fix.peak_reserved <= fix.capacity);
      check_run(fix);
      ++num_fixes;
    }
    for (const Change& change : advice.not_enough) {
      if (num_without_memory % 8 != 0) break;  // planning takes longer than running
      INFO(joined(change.set));
      REQUIRE_FALSE(change.fits);
      std::vector<std::string> overrides = limit;
      overrides.insert(overrides.end(), change.set.begin(), change.set.end());
      REQUIRE_FALSE(planner.fits(parse_experiment(yaml, "test.yaml", overrides), data, capacity));
    }
    if (num_without_memory % 8 != 0) continue;
    for (const Change& choice : find_choices(planner, limited, data, capacity, {})) {
      INFO(joined(choice.set));
      REQUIRE(choice.fits);
      check_run(choice);
      ++num_choices;
    }
  }
  CHECK(num_fixes > 5 * num_runs / 2);
  CHECK(num_same > num_runs);
  CHECK(num_choices >= num_runs / 10);
  CHECK(num_hopeless < num_runs / 10);
}

}  // namespace trainer
