#include <catch2/catch.hpp>

#include "engine/plan/allocator_options.h"
#include "engine/plan/search/diagnosis.h"
#include "engine/plan/search/find_maximum.h"
#include "engine/plan/search/fixes.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/compile.h"
#include "engine/report/memory/diagnosis_text.h"
#include "engine/report/plan/plan_stages.h"
#include "engine/report/text/change_text.h"
#include "tests/techniques/generated_experiments.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

/// A generated experiment and what its sentences are held against: plans of it with overrides, from its text on.
struct ClaimedCase {
  std::string yaml;
  std::vector<std::string> base;  ///< overrides that belong to it
  const DataDescription& data;
  Planner& planner;
  std::int64_t capacity = 0;

  Experiment with(const std::vector<std::string>& overrides) const {
    std::vector<std::string> all = base;
    all.insert(all.end(), overrides.begin(), overrides.end());
    return parse_experiment(yaml, "test.yaml", all);
  }
  /// False also where a rule refuses it.
  bool fits(const std::vector<std::string>& overrides) const {
    try {
      return planner.fits(with(overrides), data, capacity);
    } catch (const ConfigError&) {
      return false;
    }
  }
  std::int64_t peak_reserved(const std::vector<std::string>& overrides) const {
    return planner.plan(with(overrides), data, capacity).peak_reserved;
  }
};

/// How often each kind of sentence was told.
using ClaimCounts = std::map<std::string, int>;

/// Whether `text` holds the sentence, which is counted.
bool tells(const std::string& text, const std::string& sentence, ClaimCounts& counts) {
  const bool is_told = text.find(sentence) != std::string::npos;
  counts[sentence] += is_told ? 1 : 0;
  return is_told;
}

void check_advice(const ClaimedCase& the_case, const Advice& advice, ClaimCounts& counts) {
  const Experiment as_it_is = the_case.with({});
  const RunSchedule schedule(as_it_is, the_case.data);
  const auto batch = [](std::int64_t size) { return "train.batch_size=" + std::to_string(size); };
  if (advice.largest_batch.value) {
    const std::int64_t largest = *advice.largest_batch.value;
    for (std::int64_t size = 1; size <= largest; ++size) CHECK(the_case.fits({batch(size)}));
    CHECK_FALSE(the_case.fits({batch(largest + 1)}));
    ++counts["one sample more does not"];
  }
  if (advice.one_sample_is_too_many) {
    CHECK_FALSE(the_case.fits({batch(1)}));
    ++counts["A batch of 1 does not fit either."];
  }
  for (const Change& fix : advice.fixes) {
    std::vector<std::string> wider = fix.set;
    const std::string text = change_text(fix);
    if (!tells(text, "the widest that was found to fit", counts) &&
        !tells(text, "the most that were found to fit", counts))
      continue;
    const std::size_t equals = wider.back().find('=') + 1;
    wider.back() = wider.back().substr(0, equals) + std::to_string(std::stoll(wider.back().substr(equals)) + 1);
    INFO(wider.back());
    CHECK_FALSE(the_case.fits(wider));
  }
  for (const Change& change : advice.not_enough) {
    CHECK_FALSE(the_case.fits(change.set));
    CHECK(the_case.peak_reserved(change.set) == change.peak_reserved);
    ++counts["Planned, and not enough alone"];
  }
}

void check_diagnosis(const ClaimedCase& the_case, const Diagnosis& diagnosis, ClaimCounts& counts) {
  const std::string text = diagnosis_text(diagnosis, {false, 10'000});
  INFO(text);
  const std::vector<std::string> allocators = {"memory.allocator=planned", "memory.expandable_segments=true",
                                               "memory.allocator=caching"};
  if (tells(text, "no batch size, checkpointing or allocator is enough", counts)) {
    for (const std::string& allocator : allocators)
      for (const std::string checkpointing : {"off", "sqrt", "auto"})
        CHECK_FALSE(the_case.fits({"train.batch_size=1", allocator, "train.checkpointing=" + checkpointing}));
  }
  if (tells(text, "Another allocator or expandable segments alone do not help", counts))
    for (const std::string& allocator : allocators) CHECK_FALSE(the_case.fits({allocator}));
  if (tells(text, "memory.allocator=planned, is enough", counts)) CHECK(the_case.fits({"memory.allocator=planned"}));
  if (tells(text, "memory.allocator=planned, it still takes", counts))
    CHECK_FALSE(the_case.fits({"memory.allocator=planned"}));
  if (tells(text, "train.checkpointing and memory.update do not help", counts))
    for (const char* change : {"train.checkpointing=auto", "train.checkpointing=sqrt", "memory.update=in_backward"})
      CHECK_FALSE(the_case.fits({change}));
  const auto fits_with = [&](std::int64_t capacity) {
    return the_case.planner.fits(the_case.with({}), the_case.data, capacity);
  };
  const std::int64_t limit = the_case.with({}).memory.limit.value_or(unlimited_capacity);
  const std::int64_t without_others = std::min(the_case.capacity + diagnosis.held_by_others, limit);
  if (tells(text, "if they ended, it would fit as it is", counts)) CHECK(fits_with(without_others));
  if (tells(text, "it would not fit if they ended either", counts)) CHECK_FALSE(fits_with(without_others));
}

void check_stages(const ClaimedCase& the_case, ClaimCounts& counts) {
  const Experiment experiment =
      settle_experiment(the_case.with({}), the_case.data, the_case.planner.device(), the_case.capacity);
  const Program program = compile(experiment, the_case.data, the_case.planner.device());
  const RunSchedule schedule(experiment, the_case.data);
  const auto plan_under = [&](std::int64_t capacity) {
    return make_memory_plan(program, schedule, capacity, allocator_options(experiment));
  };
  PlanFindings findings;
  findings.plan = plan_under(the_case.capacity);
  if (!findings.plan.fits) findings.plan = plan_under(unlimited_capacity);
  const MemoryPlan& plan = findings.plan;
  if (schedule.evaluates()) {
    findings.eval_batch_size = schedule.eval_batch_size();
    findings.evaluation_savings = find_evaluation_savings(the_case.planner, the_case.with({}), the_case.data, plan,
                                                          schedule.eval_batch_size(), plan.capacity);
  }
  const std::string text = stages_report(findings, {false, 10'000});
  INFO(text);
  const auto peak_with = [&](std::int64_t size) {
    const Experiment changed = the_case.with({"train.eval_batch_size=" + std::to_string(size)});
    return the_case.planner.plan(changed, the_case.data, plan.capacity).peak_reserved;
  };
  if (tells(text, "a smaller train.eval_batch_size would save nothing", counts))
    for (std::int64_t size = 1; size < schedule.eval_batch_size(); size += 1 + size / 2)
      CHECK(peak_with(size) >= plan.peak_reserved);
  if (tells(text, "train.eval_batch_size=1 would save nothing", counts)) CHECK(peak_with(1) >= plan.peak_reserved);
  if (const auto& cut = findings.evaluation_savings.cut) {
    CHECK(tells(text, "the run would reserve", counts));
    CHECK(cut->peak_reserved < plan.peak_reserved);
    CHECK(peak_with(cut->eval_batch_size) == cut->peak_reserved);
  }
  std::int64_t training = 0, evaluation = 0;
  bool all_equal = true;
  for (const PlannedSteps& steps : plan.steps) {
    if (steps.first_step == 0) continue;
    std::int64_t& peak = steps.evaluation ? evaluation : training;
    peak = std::max(peak, steps.memory.peak_allocated);
    if (!steps.evaluation) all_equal = all_equal && steps.memory == plan.first_step;
  }
  if (tells(text, "they repeat it to the byte", counts)) {
    CHECK(all_equal);
    CHECK(plan.peak_reserved == plan.first_step.peak_reserved);
  }
  if (tells(text, "reserves all that the run needs", counts))
    CHECK(plan.peak_reserved == plan.first_step.peak_reserved);
  if (tells(text, "The steady step repeats the first to the byte", counts)) {
    CHECK(plan.first_step == plan.steady_step);
    CHECK(plan.peak_reserved > plan.first_step.peak_reserved);
  }
  if (tells(text, "are not of the same batches", counts)) {
    const RunSchedule::Step first = schedule.step(1);
    bool has_other = false;
    for (std::int64_t step = 2; step <= schedule.total_steps(); ++step) {
      const RunSchedule::Step other = schedule.step(step);
      has_other = has_other || other.num_samples != first.num_samples;
    }
    CHECK(has_other);
  }
  if (tells(text, "the cache was given back to stay within the capacity", counts)) CHECK(plan.num_alloc_retries > 0);
  if (tells(text, "Evaluation sets the peak", counts)) CHECK(evaluation > training);
  if (tells(text, "has further segments reserved", counts)) CHECK(evaluation <= training);
  if (tells(text, "Training sets the peak", counts)) CHECK(evaluation <= training);
}

void check_maximum(const ClaimedCase& the_case, ClaimCounts& counts) {
  const WithValue with_batch = [&](std::int64_t size) -> std::optional<Candidate> {
    return Candidate{the_case.with({"train.batch_size=" + std::to_string(size)}), the_case.data};
  };
  const std::int64_t num_train = the_case.data.num_train;
  const Maximum maximum =
      find_maximum(the_case.planner, with_batch, {.largest_allowed = num_train, .capacity = the_case.capacity});
  const auto fits = [&](std::int64_t size) { return the_case.fits({"train.batch_size=" + std::to_string(size)}); };
  REQUIRE(maximum.isolated.num_unknown == 0);
  const std::int64_t largest = maximum.found.value.value_or(0);
  for (std::int64_t size = 1; size <= largest; ++size) CHECK(fits(size));
  for (std::int64_t size = std::max(largest, maximum.isolated.value.value_or(0)) + 1; size <= num_train; ++size)
    REQUIRE_FALSE(fits(size));
  if (maximum.isolated.value) CHECK(fits(*maximum.isolated.value));
  ++counts["The largest that fits is"];
  for (const std::int64_t size : maximum.isolated.smaller_that_fail) {
    CHECK_FALSE(fits(size));
    ++counts["memory does not always grow with the value"];
  }
  CHECK(maximum.next.has_value() == (largest < num_train));
  if (!maximum.next) return;
  CHECK(maximum.next->value == largest + 1);
  CHECK(maximum.next->failure.has_value());
  CHECK(maximum.next->peak_reserved == the_case.peak_reserved({"train.batch_size=" + std::to_string(largest + 1)}));
  ++counts["would take"];
}

}  // namespace

TEST_CASE("every sentence of advice about generated runs is what plans of the same text say") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const MachineRates rates = assumed_cpu_rates(1);
  std::mt19937 random(20261123);
  ClaimCounts counts;
  const int num_runs = num_generated(75);
  for (int i = 0; i < num_runs; ++i) {
    const std::string yaml = generated_experiment(random, 2);
    INFO(yaml);
    std::vector<std::string> base;
    if (i % 2 == 0 && yaml.find("memory:") == std::string::npos) base.emplace_back("memory.allocator=caching");
    if (i % 3 == 0) base.insert(base.end(), {"data.validation_samples=900", "train.eval_batch_size=900"});
    if (i % 3 == 1 && yaml.find("batch_size: all") == std::string::npos)
      base.insert(base.end(), {"train.batch_size=12", "train.steps=30"});
    if (i % 4 == 3) base.emplace_back("train.accumulation_steps=1");
    const TestRun generated(yaml, folder.path("run"), base);
    Planner planner(*device, rates);
    const Verdict unbounded = planner.plan(generated.experiment, generated.data.description, unlimited_capacity);
    REQUIRE_FALSE(unbounded.problem.has_value());
    const double share = std::uniform_real_distribution<double>(0.1, 1.1)(random);
    const auto capacity = static_cast<std::int64_t>(share * static_cast<double>(unbounded.peak_reserved));
    INFO("capacity " << capacity);
    const ClaimedCase the_case{yaml, base, generated.data.description, planner, capacity};
    check_stages(the_case, counts);
    if (i % 5 == 0) check_maximum(the_case, counts);
    if (the_case.fits({})) continue;
    Advice advice = find_advice(planner, generated.experiment, the_case.data, capacity);
    check_advice(the_case, advice, counts);
    const auto held = static_cast<std::int64_t>(random() % 3) * unbounded.peak_reserved / 3;
    check_diagnosis(the_case, diagnose(*device, generated.experiment, the_case.data, capacity, held, advice.not_enough),
                    counts);
  }
  // Sentences that are seldom true: fragmentation that no places cure, what only changes with the cache, and what few
  // of the generated runs come to.
  const std::vector<std::string> seldom = {"memory.allocator=planned, it still takes",
                                           "the cache was given back to stay within the capacity",
                                           "has further segments reserved",
                                           "are not of the same batches",
                                           "The steady step repeats the first to the byte",
                                           "train.checkpointing and memory.update do not help"};
  for (const auto& [sentence, count] : counts) {
    INFO(sentence);
    const bool is_seldom = std::find(seldom.begin(), seldom.end(), sentence) != seldom.end();
    CHECK((count > 0 || is_seldom));
  }
}

}  // namespace trainer
