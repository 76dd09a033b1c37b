#include <catch2/catch.hpp>
#include <random>

#include "engine/plan/memory_plan.h"
#include "engine/plan/search/planner.h"
#include "tests/techniques/generated_experiments.h"
#include "tests/techniques/networks.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

/// One way of each technique, at random; what does not go together is left out.
std::vector<std::string> random_techniques(std::mt19937& random, bool is_classifier) {
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  std::vector<std::string> set;
  const bool is_planned = one_in(6), is_bf16 = one_in(4), is_fp16 = !is_bf16 && one_in(4), accumulates = one_in(3);
  if (is_planned) set.emplace_back("memory.allocator=planned");
  if (!is_planned && !one_in(6)) set.emplace_back("memory.allocator=caching");
  if (!is_planned && one_in(4)) set.emplace_back("memory.expandable_segments=true");
  if (is_bf16) set.emplace_back("train.amp=bf16");
  if (is_fp16) set.emplace_back("train.amp=fp16");
  if (accumulates) set.push_back("train.accumulation_steps=" + std::to_string(2 + random() % 2));
  const std::vector<std::string> checkpointings = {"off", "off", "{every: 2}", "sqrt", "{layers: ['*']}"};
  set.push_back("train.checkpointing=" + checkpointings[random() % checkpointings.size()]);
  const std::vector<std::string> optimizers = {"{type: sgd, lr: 0.01}", "{type: sgd, lr: 0.01, momentum: 0.9}",
                                               "{type: adamw, lr: 0.001}"};
  const std::size_t optimizer = random() % optimizers.size();
  set.push_back("optimizer=" + optimizers[optimizer]);
  if (optimizer == 2 && one_in(2)) set.emplace_back("memory.moments=8bit");
  if (one_in(4)) set.emplace_back("memory.in_place=false");
  if (one_in(4)) set.emplace_back("memory.recompute_cheap=false");
  if (!accumulates && !is_fp16 && one_in(3)) set.emplace_back("memory.update=in_backward");
  if (is_classifier && one_in(5)) set.emplace_back("memory.chunked_loss=2");
  if (one_in(3)) set.emplace_back("data.drop_last=true");
  if (one_in(3)) set.emplace_back("train.eval_batch_size=4");
  // Few sizes, since kernels are made for each: one, such as leave an odd last batch, and all samples.
  const std::vector<std::string> batch_sizes = {"1", "4", "7", "22"};
  set.push_back("train.batch_size=" + batch_sizes[random() % batch_sizes.size()]);
  // Odd last batches and evaluations come at the end of an epoch, which large batches reach.
  set.push_back("train.steps=" + std::to_string(1 + random() % 2));
  return set;
}

}  // namespace

TEST_CASE("at its own peak a run fits and one byte below it does not, just as the plan says") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(*device, rates);
  std::mt19937 random(4711);
  const std::vector<std::size_t> order = {0, 1, 4, 5, 0, 1, 4, 5, 0, 1, 2, 3};  // convolutions take longest
  int num_configs = 0, num_fitting = 0, num_failing = 0, num_below_that_fit = 0;
  const int most_configs = num_generated(120);
  while (num_configs < most_configs) {
    const TechniqueNetwork& network = technique_networks()[order[num_configs % order.size()]];
    const bool is_classifier = std::string(network.yaml).find("loss:") == std::string::npos;
    std::vector<std::string> set = random_techniques(random, is_classifier);
    set.emplace_back("name=verdict");
    std::string words;
    for (const std::string& word : set) words += " " + word;
    INFO(network.name << words);
    TestRun run(network.yaml, folder.path("run"), set);
    run.options.overwrite = true;
    const DataDescription& data = run.data.description;
    const std::int64_t peak = planner.plan(run.experiment, data, unlimited_capacity).peak_reserved;
    for (const std::int64_t capacity : {peak, peak - 1}) {
      run.experiment.memory.limit = capacity;
      const bool fits = planner.plan(run.experiment, data, capacity).fits;
      const bool quickly = planner.fits(run.experiment, data, capacity);
      const RunStatus status = run(*device);
      const bool is_right = fits == quickly && status == (fits ? RunStatus::done : RunStatus::out_of_memory);
      if (!is_right) {  // two thousand passing assertions are not printed
        CAPTURE(capacity, peak, fits, quickly);
        CHECK(is_right);
      }
      ++(fits ? num_fitting : num_failing);
      num_below_that_fit += fits && capacity < peak ? 1 : 0;
    }
    ++num_configs;
  }
  INFO(num_fitting << " fit, " << num_failing << " do not; " << num_below_that_fit << " below the peak do");
  CHECK(num_fitting - num_below_that_fit == num_configs);
  CHECK(num_failing >= 4 * num_configs / 5);
}

TEST_CASE("a resumed run keeps the batch that train.batch_size: auto stood for, whatever fits now") {
  const OutputFolder folder;
  const char* yaml = R"(
name: auto
data: {type: synthetic, shape: [64], classes: 10, samples: 3000}
model: {layers: [linear: {out: 512}, relu, linear: {out: 512}, relu, linear: {out: 10}]}
optimizer: {type: adamw, lr: 0.001}
train: {batch_size: auto}
)";
  TestRun first(yaml, folder.path("run"), {"memory.limit=6MiB", "train.steps=2"});
  REQUIRE(first() == RunStatus::done);
  const std::int64_t samples = first.events.steps.at(0).samples;
  CHECK(samples > 1);
  CHECK(samples < 3000);
  CHECK(first.events.starts.at(0).experiment != nullptr);
  // More would fit now.
  TestRun more(yaml, folder.path("run"), {"memory.limit=26MiB", "train.steps=4"});
  more.options.resume = true;
  REQUIRE(more() == RunStatus::done);
  CHECK(more.events.steps.at(0).step == 3);
  CHECK(more.events.steps.at(0).samples == samples);
  // Less: the run does not shrink its batch unasked.
  TestRun less(yaml, folder.path("run"), {"memory.limit=4MiB", "train.steps=6"});
  less.options.resume = true;
  CHECK(less() == RunStatus::out_of_memory);
}

}  // namespace trainer
