#include <catch2/catch.hpp>

#include <random>

#include "engine/plan/choices.h"
#include "engine/plan/fixes.h"
#include "engine/plan/memory_plan.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

/// A network of random size that trains on few samples, as YAML.
std::string random_experiment(std::mt19937& random) {
  const auto pick = [&](int lowest, int highest) {
    return std::to_string(std::uniform_int_distribution<int>(lowest, highest)(random));
  };
  const auto one_of = [&](const std::vector<std::string>& texts) { return texts[random() % texts.size()]; };
  std::string text = "name: generated\n";
  const std::string samples = pick(17, 97);
  switch (random() % 3) {
    case 0:
      text += "data: {type: synthetic, shape: [" + pick(3, 700) + "], classes: 5, samples: " + samples +
              ", validation_samples: " + pick(0, 80) + "}\nmodel: {layers: [{linear: {out: " + pick(100, 900) + "}}, " +
              one_of({"relu", "gelu", "{dropout: {p: 0.3}}", "layernorm"}) + ", {linear: {out: " + pick(100, 900) +
              "}}, silu, {linear: {out: 5}}]}\n";
      break;
    case 1: {
      const std::string width = pick(64, 257);
      text += "data: {type: synthetic, shape: [33], target_type: numeric, samples: " + samples +
              "}\nloss: mse\nmodel: {layers: [{linear: {out: " + width + "}}, {repeat: {times: " + pick(2, 4) +
              ", layers: [{residual: {layers: [layernorm, {linear: {out: " + width + "}}, tanh]}}]}}, " +
              "{linear: {out: 1}}]}\n";
      break;
    }
    default:
      text += "data: {type: synthetic, shape: [13, 11, 2], classes: 3, samples: " + samples +
              ", validation_samples: " + pick(1, 70) + "}\nmodel: {layers: [{conv2d: {out: " + pick(6, 24) +
              ", kernel: 3, padding: 1}}, " + one_of({"batchnorm2d", "relu"}) +
              ", {maxpool2d: {kernel: 2}}, {conv2d: {out: " + pick(6, 24) +
              ", kernel: 3}}, relu, flatten, {linear: {out: 3}}]}\n";
  }
  text += "optimizer: " + one_of({"{type: sgd}", "{type: sgd, momentum: 0.9, nesterov: true}", "{type: adam}",
                                  "{type: adamw, weight_decay: 0.02}"});
  text += "\ntrain: {batch_size: " + one_of({"all", pick(2, 64), pick(2, 64), pick(2, 64)}) + ", steps: 2";
  const bool is_all = text.find("batch_size: all") != std::string::npos;
  if (!is_all && random() % 4 == 0) text += ", accumulation_steps: " + pick(2, 3);
  if (random() % 6 == 0) text += ", clip_norm: 1";
  if (random() % 6 == 0) text += ", eval_batch_size: " + pick(1, 90);
  if (random() % 7 == 0) text += ", checkpointing: " + one_of({"sqrt", "auto", "{every: 2}"});
  text += "}\n";
  if (random() % 8 == 0) text += "memory: {allocator: planned}\n";
  return text;
}

bool runs(const std::string& yaml, const std::string& output, std::vector<std::string> overrides,
          const std::vector<std::string>& set, Device& device) {
  overrides.insert(overrides.end(), set.begin(), set.end());
  TestRun run(yaml, output, overrides);
  run.options.overwrite = true;
  return run(device) == RunStatus::done;
}

std::string joined(const std::vector<std::string>& set) {
  std::string text;
  for (const std::string& word : set) text += word + " ";
  return text;
}

}  // namespace

TEST_CASE("every fix and every choice of 200 generated runs without memory enough is pasted, and runs") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const MachineRates rates = assumed_cpu_rates(1);
  std::mt19937 random(20261121);
  int num_without_memory = 0, num_fixes = 0, num_choices = 0, num_hopeless = 0;
  while (num_without_memory < 200) {
    const std::string yaml = random_experiment(random);
    INFO(yaml);
    const TestRun generated(yaml, folder.path("run"));
    const DataDescription& data = generated.data.description;
    Planner planner(*device, rates);
    const Verdict unbounded = planner.plan(generated.experiment, data, unlimited_capacity);
    REQUIRE(unbounded.problem.empty());
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
    for (const Change& fix : advice.fixes) {
      INFO(joined(fix.set));
      REQUIRE(fix.fits);
      REQUIRE(fix.peak_reserved <= fix.capacity);
      if (!runs(yaml, folder.path("run"), limit, fix.set, *device)) FAIL("it does not run");
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
      if (!runs(yaml, folder.path("run"), limit, choice.set, *device)) FAIL("the choice does not run");
      ++num_choices;
    }
  }
  CHECK(num_fixes > 600);
  CHECK(num_choices > 30);
  CHECK(num_hopeless < 20);
}

}  // namespace trainer
