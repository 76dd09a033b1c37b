#include <catch2/catch.hpp>

#include <optional>

#include "engine/plan/memory_plan.h"
#include "engine/plan/search/choices.h"
#include "engine/plan/search/fixes.h"
#include "engine/train/adaptation.h"
#include "tests/techniques/generated_experiments.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

/// The overrides of a change, in the units that can be dropped: each by itself, but the batch size together with the
/// micro-batches that keep an update's samples, and an optimizer's keys.
std::vector<std::vector<std::string>> units_of(const std::vector<std::string>& set) {
  std::vector<std::vector<std::string>> units;
  std::vector<std::string> split, optimizer;
  for (const std::string& word : set) {
    if (word.starts_with("train.batch_size=") || word.starts_with("train.accumulation_steps="))
      split.push_back(word);
    else if (word.starts_with("optimizer"))
      optimizer.push_back(word);
    else
      units.push_back({word});
  }
  for (const std::vector<std::string>& unit : {split, optimizer})
    if (!unit.empty()) units.push_back(unit);
  return units;
}

/// The experiment without the units of `dropped`; nothing where a rule of the configuration refuses that.
std::optional<Experiment> parse_without(const std::string& yaml, std::vector<std::string> overrides,
                                        const std::vector<std::vector<std::string>>& units,
                                        const std::vector<std::size_t>& dropped) {
  for (std::size_t i = 0; i < units.size(); ++i)
    if (std::find(dropped.begin(), dropped.end(), i) == dropped.end())
      overrides.insert(overrides.end(), units[i].begin(), units[i].end());
  try {
    return parse_experiment(yaml, "test.yaml", overrides);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

/// What of `set` is not needed by itself, or by itself with one other that cannot be without it; "" where all is.
/// `is_enough` plans an experiment with some units dropped.
template <typename IsEnough>
std::string needless_part(const std::string& yaml, const std::vector<std::string>& overrides,
                          const std::vector<std::string>& set, const IsEnough& is_enough) {
  const std::vector<std::vector<std::string>> units = units_of(set);
  for (std::size_t i = 0; i < units.size() && units.size() > 1; ++i) {
    if (const auto fewer = parse_without(yaml, overrides, units, {i})) {
      if (is_enough(*fewer)) return units[i].front();
      continue;
    }
    for (std::size_t j = 0; j < units.size() && units.size() > 2; ++j) {
      const auto fewer = j == i ? std::nullopt : parse_without(yaml, overrides, units, {i, j});
      if (fewer && is_enough(*fewer)) return units[i].front() + " " + units[j].front();
    }
  }
  return "";
}

std::string with_blanks(const std::vector<std::string>& set) {
  std::string text;
  for (const std::string& word : set) text += word + " ";
  return text;
}

}  // namespace

TEST_CASE("no setting of any fix, choice or adaptation of generated runs without memory enough can be dropped") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const MachineRates rates = assumed_cpu_rates(1);
  std::mt19937 random(20261122);
  int num_cases = 0, num_fixes = 0, num_choices = 0, num_adaptations = 0;
  const int most_cases = num_generated(50);
  while (num_cases < most_cases) {
    const std::string yaml = generated_experiment(random, 2);
    INFO(yaml);
    // Where the allocator is chosen each question is two plans.
    std::vector<std::string> given;
    if (random() % 5 != 0) given = {"memory.allocator=caching"};
    const TestRun generated(yaml, folder.path("run"), given);
    const DataDescription& data = generated.data.description;
    Planner planner(*device, rates);
    const Verdict unbounded = planner.plan(generated.experiment, data, unlimited_capacity);
    REQUIRE_FALSE(unbounded.problem.has_value());
    const double share = std::uniform_real_distribution<double>(0.15, 1.0)(random);
    const auto capacity = static_cast<std::int64_t>(share * static_cast<double>(unbounded.peak_reserved));
    if (planner.fits(generated.experiment, data, capacity)) continue;
    ++num_cases;
    std::vector<std::string> limit = given;
    limit.push_back("memory.limit=" + std::to_string(capacity));
    INFO(with_blanks(limit));
    const Experiment limited = parse_experiment(yaml, "test.yaml", limit);
    const auto fits = [&](const Experiment& changed) { return planner.fits(changed, data, capacity); };
    for (const Change& fix : find_advice(planner, limited, data, capacity).fixes) {
      INFO(with_blanks(fix.set));
      if (units_of(fix.set).size() < 2) continue;
      ++num_fixes;
      CHECK(needless_part(yaml, limit, fix.set, fits) == "");
    }
    // A choice may set more where that is faster.
    const auto check_choice = [&](const Change& choice) {
      INFO(with_blanks(choice.set));
      const auto is_as_fast = [&](const Experiment& fewer) {
        const Verdict verdict = planner.plan(fewer, data, capacity);
        return verdict.fits && verdict.time.seconds <= choice.step_seconds;
      };
      CHECK(needless_part(yaml, limit, choice.set, is_as_fast) == "");
      return units_of(choice.set).size() > 1 ? 1 : 0;
    };
    // Searches for them take longer than for fixes.
    if (num_cases % 5 == 0) {
      if (const std::optional<Change> adaptation = find_adaptation(planner, limited, data, capacity))
        num_adaptations += check_choice(*adaptation);
    }
    if (num_cases % 20 != 0) continue;
    for (const Change& choice : find_choices(planner, limited, data, capacity, {})) num_choices += check_choice(choice);
  }
  CHECK(num_fixes > num_cases / 4);
  CHECK(num_choices > num_cases / 75);
  CHECK(num_adaptations > num_cases / 75);
}

}  // namespace trainer
