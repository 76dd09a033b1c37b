#include <catch2/catch.hpp>

#include "engine/plan/allocator_options.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/compile.h"
#include "tests/techniques/generated_experiments.h"
#include "tests/techniques/networks.h"
#include "tests/techniques/plan_equals_run.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

struct Choice {
  const char* name;
  std::vector<std::string> set;
};

const std::vector<Choice> precisions = {{"f32", {}}, {"fp16", {"train.amp=fp16"}}, {"bf16", {"train.amp=bf16"}}};
const std::vector<Choice> all_checkpointings = {{"off", {}},
                                                {"every", {"train.checkpointing={every: 2}"}},
                                                {"layers", {"train.checkpointing={layers: ['*']}"}},
                                                {"sqrt", {"train.checkpointing=sqrt"}},
                                                {"budget", {}}};
const std::vector<Choice> accumulations = {{"1", {}}, {"3", {"train.accumulation_steps=3"}}};
const std::vector<Choice> allocators = {{"caching", {}}, {"planned", {"memory.allocator=planned"}}};
const std::vector<Choice> all_optimizers = {
    {"sgd", {"optimizer={type: sgd, lr: 0.01}"}},
    {"momentum", {"optimizer={type: sgd, lr: 0.01, momentum: 0.9}"}},
    {"adamw", {"optimizer={type: adamw, lr: 0.001}"}},
    {"adamw 8bit", {"optimizer={type: adamw, lr: 0.001}", "memory.moments=8bit"}}};

/// Settings that every so many of the configurations have besides.
std::vector<std::string> further_settings(int index, bool is_half, bool is_bf16, bool accumulates, bool is_classifier) {
  std::vector<std::string> set;
  if (index % 3 == 1) set.emplace_back("memory.in_place=false");
  if (index % 5 == 2) set.emplace_back("memory.recompute_cheap=false");
  if (index % 7 == 3) set.emplace_back("train.clip_norm=1");
  if (index % 7 != 3 && index % 2 == 0 && !accumulates && (is_bf16 || !is_half))
    set.emplace_back("memory.update=in_backward");
  if (is_half && index % 3 == 0) set.emplace_back("memory.gradients=16bit");
  if (is_bf16 && index % 4 == 1) set.emplace_back("memory.master_weights=false");
  if (is_classifier && index % 11 == 5) set.emplace_back("memory.chunked_loss=2");
  return set;
}

std::int64_t planned_peak(const Experiment& experiment, const DataDescription& data, const Device& device) {
  return make_memory_plan(compile(experiment, data, device), RunSchedule(experiment, data), unlimited_capacity,
                          allocator_options(experiment))
      .peak_allocated;
}

/// Between the least that any budget reaches and what is held without one.
void set_reachable_budget(Experiment& experiment, const DataDescription& data, const Device& device) {
  CheckpointingConfig& checkpointing = experiment.train.checkpointing;
  const std::int64_t without = planned_peak(experiment, data, device);
  checkpointing.type = CheckpointingConfig::Type::automatic;
  checkpointing.budget = 1;
  const std::int64_t least = planned_peak(experiment, data, device);
  checkpointing.type = CheckpointingConfig::Type::budget;
  checkpointing.budget = (without + least) / 2;
}

}  // namespace

TEST_CASE("the plan equals the run for every precision, checkpointing, accumulation, allocator and optimizer") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  // A third of all, among them every two settings together; with TRAINER_GENERATED_NETWORKS all.
  const bool takes_all = num_generated(0) > 0;
  const auto place = [](const auto& choices, const auto& choice) { return &choice - choices.data(); };
  int num_checked = 0;
  for (const TechniqueNetwork& network : technique_networks())
    for (const Choice& precision : precisions)
      for (const Choice& checkpointing : all_checkpointings)
        for (const Choice& accumulation : accumulations)
          for (const Choice& allocator : allocators)
            for (const Choice& optimizer : all_optimizers) {
              const auto sum = place(technique_networks(), network) + place(precisions, precision) +
                               place(all_checkpointings, checkpointing) + place(accumulations, accumulation) +
                               place(allocators, allocator) + place(all_optimizers, optimizer);
              if (!takes_all && sum % 3 != 0) continue;
              // A search is the slowest part of a tiny run.
              if (&checkpointing == &all_checkpointings[4] && (&optimizer - &all_optimizers[0]) % 2 == 0) continue;
              const bool is_half = &precision != &precisions[0];
              std::vector<std::string> set = further_settings(
                  num_checked, is_half, &precision == &precisions[2], &accumulation != &accumulations[0],
                  std::string(network.yaml).find("loss:") == std::string::npos);
              for (const Choice* choice : {&precision, &checkpointing, &accumulation, &allocator, &optimizer})
                set.insert(set.end(), choice->set.begin(), choice->set.end());
              set.insert(set.end(), {"train.batch_size=5", "train.steps=3", "memory.limit=1GiB", "name=product"});
              std::string words;
              for (const std::string& word : set) words += " " + word;
              INFO(network.name << words << ", checkpointing " << checkpointing.name);
              TestRun run(network.yaml, folder.path("run"), set);
              run.options.overwrite = true;
              if (&checkpointing == &all_checkpointings[4])
                set_reachable_budget(run.experiment, run.data.description, *device);
              check_plan_equals_run(run, *device);
              ++num_checked;
            }
  CHECK(num_checked >= (takes_all ? 1000 : 300));
}

}  // namespace trainer
