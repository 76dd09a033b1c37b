#include <catch2/catch.hpp>

#include <cmath>

#include "engine/memory/machine_memory.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/run_directory.h"
#include "tests/whole_runs/stage_checks.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// Norms, dropout, moments, accumulation, an odd last batch and evaluations, in stages that freeze, unfreeze, change
/// the batch, the optimizer and its state.
constexpr const char* staged_experiment = R"(
name: staged
seed: 7
data: {type: synthetic, shape: [6, 6, 2], classes: 4, samples: 44, validation_samples: 12}
model:
  groups: {body: rest, head: [head]}
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - dropout: {p: 0.25}
    - flatten
    - linear: {out: 4, name: head}
optimizer: {type: adamw, lr: 0.01, weight_decay: 0.01}
train: {batch_size: 5, accumulation_steps: 2, steps: 6, eval_every: 4}
memory: {limit: 64MiB}
stages:
  - {name: head, freeze: {to: head}, freeze_norms: on}
  - {name: all, unfreeze: all, optimizer: {lr: {slice: [0.001, 0.01]}}, schedule: {type: one_cycle, momentum: [0.85, 0.95]}}
  - {name: large, train: {batch_size: 22, accumulation_steps: 1, epochs: 2, steps: null}, schedule: cosine}
  - {name: norms, freeze: all, freeze_norms: off, optimizer: keep}
  - {name: other, unfreeze: all, optimizer: {type: sgd, lr: 0.01, momentum: 0.9}}
  - {name: last, optimizer: {clear: [head], lr: 0.001}, train: {steps: 5}}
)";

std::string saved(const std::string& output, int step) {
  return file_bytes(checkpoint_file(output, step, "model.safetensors")) +
         file_bytes(checkpoint_file(output, step, "optimizer.safetensors"));
}

/// Keeps what a step says while its stage's name is there.
struct StageSink : DescribedSink {
  std::vector<StageEvent> stages;
  std::vector<std::pair<std::string, double>> losses;
  std::vector<std::int64_t> numbers, epochs;
  std::vector<StepMemory> memory;
  std::vector<OutOfMemoryEvent> failures;
  std::vector<EndEvent> ends;
  std::vector<CheckpointEvent> checkpoints;
  Interruption* interruption = nullptr;
  std::int64_t interrupt_after = -1;

  void take(const Event& event) override {
    DescribedSink::take(event);
    if (const auto* stage = std::get_if<StageEvent>(&event)) stages.push_back(*stage);
    if (const auto* failure = std::get_if<OutOfMemoryEvent>(&event)) failures.push_back(*failure);
    if (const auto* end = std::get_if<EndEvent>(&event)) ends.push_back(*end);
    if (const auto* checkpoint = std::get_if<CheckpointEvent>(&event)) checkpoints.push_back(*checkpoint);
    const auto* const step = std::get_if<StepEvent>(&event);
    if (step == nullptr) return;
    losses.emplace_back(std::string(step->stage), step->loss);
    numbers.push_back(step->step);
    epochs.push_back(step->epoch);
    memory.push_back(step->memory.step);
    if (interruption != nullptr && step->step == interrupt_after) ++interruption->requests;
  }
};

struct StagedRun {
  Experiment experiment;
  TrainingOptions options;
  Interruption interruption;
  StageSink events;

  StagedRun(const std::string& yaml, const std::string& output, std::vector<std::string> overrides = {}) {
    overrides.push_back("output=" + output);
    experiment = parse_experiment(yaml, "test.yaml", overrides);
    options.trainer_version = "test";
  }
  RunStatus operator()() {
    events.interruption = &interruption;
    const std::unique_ptr<Device> device = make_cpu_device(1);
    return run_training(experiment, load_data(experiment.data, experiment.seed), *device, options, interruption,
                        events);
  }
};

}  // namespace

TEST_CASE("stages are trained one after the other, their steps and epochs counted on") {
  const OutputFolder folder;
  StagedRun run(staged_experiment, folder.path("run"));
  REQUIRE(run() == RunStatus::done);
  REQUIRE(run.events.stages.size() == 6);
  const std::vector<std::string> names = {"head", "all", "large", "norms", "other", "last"};
  std::int64_t step = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const StageEvent& stage = run.events.stages[i];
    CHECK(stage.name == names[i]);
    CHECK(stage.index == i);
    CHECK(stage.first_step == step + 1);
    step = stage.last_step;
  }
  CHECK(step == 6 + 6 + 4 + 4 + 4 + 5);
  REQUIRE(run.events.numbers.size() == static_cast<std::size_t>(step));
  for (std::size_t i = 0; i < run.events.numbers.size(); ++i)
    CHECK(run.events.numbers[i] == static_cast<std::int64_t>(i) + 1);
  CHECK(std::is_sorted(run.events.epochs.begin(), run.events.epochs.end()));
  // 6 steps of 5 in an epoch are two epochs, so the next stage begins with the third.
  CHECK(run.events.epochs[5] == 2);
  CHECK(run.events.epochs[6] == 3);
  for (const auto& [step_number, stage] : {std::pair{0, "head"}, {6, "all"}, {16, "norms"}, {28, "last"}})
    CHECK(run.events.losses[static_cast<std::size_t>(step_number)].first == stage);
  CHECK(run.events.stages[0].num_trained == 6 * 6 * 6 * 4 + 4);
  CHECK(run.events.stages[3].num_trained == 12);
  REQUIRE(run.events.ends.size() == 1);
  CHECK(run.events.ends.back().status == "done");
  CHECK(run.events.ends.back().stages.size() == 6);
}

TEST_CASE("frozen parameters keep every bit, and running statistics as freeze_norms says") {
  const OutputFolder folder;
  const auto tensors = [&](const std::string& output, int step) {
    return file_bytes(checkpoint_file(output, step, "model.safetensors"));
  };
  StagedRun fresh(staged_experiment, folder.path("fresh"), {"stages.0.train.steps=1"});
  fresh.options.until_stage = "head";
  REQUIRE(fresh() == RunStatus::done);
  StagedRun run(staged_experiment, folder.path("run"));
  run.options.until_stage = "head";
  REQUIRE(run() == RunStatus::done);
  const std::string before = tensors(folder.path("fresh"), 1), after = tensors(folder.path("run"), 6);
  REQUIRE(before.size() == after.size());
  // The tensors stand in the order of the model, the head's last: everything in front of it is as it was.
  const std::size_t head_bytes = (6 * 6 * 6 * 4 + 4) * sizeof(float);
  CHECK((before.substr(0, before.size() - head_bytes) == after.substr(0, after.size() - head_bytes)));
  CHECK((before.substr(before.size() - head_bytes) != after.substr(after.size() - head_bytes)));

  StagedRun by_batch(staged_experiment, folder.path("batch"), {"stages.0.freeze_norms=parameters"});
  by_batch.options.until_stage = "head";
  REQUIRE(by_batch() == RunStatus::done);
  const std::string moved = tensors(folder.path("batch"), 6);
  CHECK((moved.substr(0, moved.size() - head_bytes) != before.substr(0, before.size() - head_bytes)));
}

TEST_CASE("each stage holds what its plan says, and gives all of it back") {
  const OutputFolder folder;
  StagedRun run(staged_experiment, folder.path("run"));
  REQUIRE(run() == RunStatus::done);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::size_t step = 0;
  for (std::size_t i = 0; i < run.experiment.stages.size(); ++i) {
    const Experiment& stage = *run.experiment.stages[i].experiment;
    const DataDescription data = describe_data(stage.data, stage.seed);
    const std::int64_t capacity = run_capacity(stage, data, *device, true);
    const CompiledExperiment compiled = compile_experiment(stage, data, *device, capacity);
    const MemoryPlan plan = plan_memory(compiled, capacity);
    REQUIRE(plan.fits);
    for (std::int64_t of_stage = 1; of_stage <= compiled.schedule.total_steps(); ++of_stage, ++step) {
      INFO("stage " << i << ", step " << of_stage);
      const StepMemory* const planned = plan.find(of_stage, false);
      REQUIRE(planned != nullptr);
      CHECK(run.events.memory[step] == *planned);
    }
    CHECK(run.events.ends.back().stages[i].peak_reserved == plan.peak_reserved);
    if (i == 0) continue;
    REQUIRE(run.events.stages[i].purge.has_value());
    CHECK(run.events.stages[i].purge->reserved_before > 0);
    CHECK(run.events.stages[i].purge->reserved_after == 0);
    CHECK(run.events.stages[i].purge->allocated_after == 0);
  }
  CHECK(step == run.events.memory.size());
}

TEST_CASE("a run that is interrupted in any stage goes on bit for bit") {
  const OutputFolder folder;
  StagedRun whole(staged_experiment, folder.path("whole"));
  REQUIRE(whole() == RunStatus::done);
  const int last = 29;
  // Within stages, at their ends, and at an evaluation.
  const int stop = GENERATE(1, 6, 8, 12, 15, 18, 22, 24, 26);
  StagedRun first(staged_experiment, folder.path("halves"));
  first.events.interrupt_after = stop;
  REQUIRE(first() == RunStatus::interrupted);
  CHECK(first.events.numbers.back() == stop);
  StagedRun second(staged_experiment, folder.path("halves"));
  second.options.resume = true;
  REQUIRE(second() == RunStatus::done);
  auto losses = first.events.losses;
  losses.insert(losses.end(), second.events.losses.begin(), second.events.losses.end());
  CHECK(losses == whole.events.losses);
  CHECK((saved(folder.path("halves"), last) == saved(folder.path("whole"), last)));
  CHECK(file_bytes(checkpoint_file(folder.path("halves"), last, "state.json")).find("\"name\": \"last\"") !=
        std::string::npos);
}

TEST_CASE("what ends behind a stage goes on with the next") {
  const OutputFolder folder;
  StagedRun whole(staged_experiment, folder.path("whole"));
  REQUIRE(whole() == RunStatus::done);
  StagedRun first(staged_experiment, folder.path("parts"));
  first.options.until_stage = "large";
  REQUIRE(first() == RunStatus::done);
  CHECK(first.events.numbers.back() == 16);
  StagedRun second(staged_experiment, folder.path("parts"));
  second.options.resume = true;
  REQUIRE(second() == RunStatus::done);
  CHECK(second.events.numbers.front() == 17);
  CHECK((saved(folder.path("parts"), 29) == saved(folder.path("whole"), 29)));
}

TEST_CASE("a run that ended leaves its end in another folder that goes on from it, too") {
  const OutputFolder folder;
  StagedRun run(staged_experiment, folder.path("run"));
  REQUIRE(run() == RunStatus::done);
  StagedRun other(staged_experiment, folder.path("other"));
  other.options.resume = true;
  other.options.resume_from = folder.path("run");
  REQUIRE(other() == RunStatus::done);
  CHECK(saved(folder.path("other"), 29) == saved(folder.path("run"), 29));
}

TEST_CASE("what does not load a stage leaves the checkpoint of the stage before as it was") {
  const OutputFolder folder;
  const std::string stages = R"(
name: two
data: {type: synthetic, shape: [64], classes: 4, samples: 16, validation_samples: 8}
model:
  groups: {body: rest, head: [head]}
  layers: [linear: {out: 256, name: body}, linear: {out: 4, name: head}]
optimizer: {type: adam, lr: 0.01}
train: {batch_size: 8, epochs: 1}
memory: {allocator: caching, preflight: false}
stages: [{name: head, freeze: {to: head}}, {name: all, unfreeze: all, train: {steps: 1, epochs: null}, memory: {limit: 128KiB}}]
)";
  StagedRun run(stages, folder.path("run"));
  REQUIRE(run() == RunStatus::out_of_memory);
  const RunDirectory directory(folder.path("run"));
  REQUIRE(directory.checkpoint_steps() == std::vector<std::int64_t>{2});
  CHECK(read_checkpoint(directory.checkpoint_path(2)).state.stage.name == "head");
  StagedRun again(stages, folder.path("run"), {"stages.1.memory.limit=64MiB"});
  again.options.resume = true;
  CHECK(again() == RunStatus::done);
}

TEST_CASE("stages in front of the first one asked for are left out") {
  const OutputFolder folder;
  StagedRun run(staged_experiment, folder.path("run"));
  run.options.from_stage = "large";
  run.options.until_stage = "norms";
  REQUIRE(run() == RunStatus::done);
  REQUIRE(run.events.stages.size() == 2);
  CHECK(run.events.stages.front().name == "large");
  CHECK(run.events.stages.front().first_step == 1);

  StagedRun unknown(staged_experiment, folder.path("unknown"));
  unknown.options.from_stage = "larg";
  CHECK_THROWS_WITH(unknown(), Contains("there is no such stage") && Contains("did you mean large?"));
  StagedRun reversed(staged_experiment, folder.path("reversed"));
  reversed.options.from_stage = "norms";
  reversed.options.until_stage = "head";
  CHECK_THROWS_WITH(reversed(), Contains("comes behind"));
}

TEST_CASE("a checkpoint of another stage than the configuration has there is refused") {
  const OutputFolder folder;
  StagedRun first(staged_experiment, folder.path("run"));
  first.options.until_stage = "all";
  REQUIRE(first() == RunStatus::done);
  std::string other = staged_experiment;
  other.replace(other.find("name: all"), 9, "name: any");
  StagedRun second(other, folder.path("run"));
  second.options.resume = true;
  CHECK_THROWS_WITH(second(), Contains("made in stage 2 'all'") && Contains("'any'"));
  StagedRun changed(staged_experiment, folder.path("run"), {"stages.1.optimizer.weight_decay=0.5"});
  changed.options.resume = true;
  CHECK_THROWS_WITH(changed(), Contains("optimizer.weight_decay"));
  StagedRun later(staged_experiment, folder.path("run"), {"stages.2.train.batch_size=11"});
  later.options.resume = true;
  CHECK(later() == RunStatus::done);
}

TEST_CASE("no stage begins before all of them fit") {
  const OutputFolder folder;
  StagedRun run(staged_experiment, folder.path("run"), {"stages.5.memory.limit=16KiB"});
  REQUIRE(run() == RunStatus::out_of_memory);
  REQUIRE(run.events.failures.size() == 1);
  CHECK(run.events.failures.front().stage == "last");
  CHECK(run.events.numbers.empty());
  for (const Change& fix : run.events.failures.front().fixes)
    for (const std::string& text : fix.set) CHECK(text.starts_with("stages.5."));
}

TEST_CASE("a stage that would change the parameters is refused before the first begins") {
  const OutputFolder folder;
  std::string yaml = staged_experiment;
  yaml += "  - {name: wide, data: {shape: [8, 8, 2]}}\n";
  StagedRun run(yaml, folder.path("run"));
  CHECK_THROWS_WITH(
      run(), Contains("stage 'wide' has other parameters") && Contains("head.weight is") && Contains("test.yaml:"));
  CHECK(run.events.numbers.empty());
}

TEST_CASE("a state that is to be kept must be one that the stage can go on with") {
  const OutputFolder folder;
  std::string yaml = staged_experiment;
  yaml.replace(yaml.find("optimizer: {type: sgd, lr: 0.01, momentum: 0.9}"), 47,
               "optimizer: {type: sgd, clear: false, momentum: 0.9}");
  StagedRun run(yaml, folder.path("run"));
  CHECK_THROWS_WITH(run(), Contains("stage 'other' keeps the optimizer's state") && Contains("no momentum of SGD"));
}

TEST_CASE("the state of the optimizer goes on unless a stage freezes otherwise, or says so") {
  const OutputFolder folder;
  StagedRun run(staged_experiment, folder.path("run"));
  REQUIRE(run() == RunStatus::done);
  const auto counts = [&](std::size_t stage) {
    return std::pair{run.events.stages[stage].num_continued, run.events.stages[stage].num_begun};
  };
  CHECK(counts(1) == std::pair<std::int64_t, std::int64_t>{0, 6});  // unfreezes
  CHECK(counts(2) == std::pair<std::int64_t, std::int64_t>{6, 0});
  CHECK(counts(3) == std::pair<std::int64_t, std::int64_t>{2, 0});  // freezes, but keeps
  CHECK(counts(4) == std::pair<std::int64_t, std::int64_t>{0, 6});
  CHECK(counts(5) == std::pair<std::int64_t, std::int64_t>{4, 2});
}

TEST_CASE("two stages that change nothing are the run of both") {
  // Nothing depends on the length of the run or the number of an epoch's step.
  std::string yaml = staged_experiment;
  yaml = yaml.substr(0, yaml.find("stages:"));
  const OutputFolder folder;
  StagedRun whole(yaml, folder.path("whole"), {"train.steps=10"});
  REQUIRE(whole() == RunStatus::done);
  // Both end with an epoch, so that the next begins as it would have.
  StagedRun parts(yaml + "stages: [{name: a, train: {steps: 5}}, {name: b}]\n", folder.path("parts"));
  REQUIRE(parts() == RunStatus::done);
  CHECK((saved(folder.path("parts"), 10) == saved(folder.path("whole"), 10)));
}

TEST_CASE("a thousand stages in one process hold no more than a few") {
  const OutputFolder folder;
  std::string yaml = R"(
data: {type: synthetic, shape: [16], classes: 4, samples: 8}
model: {layers: [linear: {out: 16, name: a}, relu, linear: {out: 4, name: b}]}
optimizer: {type: adamw}
train: {batch_size: 8, epochs: 1}
memory: {limit: 8MiB}
checkpoint: {keep: 1}
stages:
)";
  const int num_stages = 1000;
  for (int i = 0; i < num_stages; ++i)
    yaml +=
        i % 2 == 0 ? "  - {unfreeze: all, train: {batch_size: 4}}\n" : "  - {freeze: [a], train: {batch_size: 8}}\n";
  StagedRun run(yaml, folder.path("run"));
  struct Watch : EventSink {
    std::int64_t resident_of_some = 0, resident_at_end = 0, reserved_after = 0, num_stages = 0;
    std::set<std::int64_t> peaks;
    void take(const Event& event) override {
      if (const auto* end = std::get_if<EndEvent>(&event))
        for (const EndEvent::Stage& stage : end->stages) peaks.insert(stage.peak_reserved);
      const auto* const stage = std::get_if<StageEvent>(&event);
      if (stage == nullptr) return;
      if (stage->purge) reserved_after += stage->purge->reserved_after;
      if (++num_stages == 100) resident_of_some = resident_bytes();
      resident_at_end = resident_bytes();
    }
  } watch;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Interruption interruption;
  REQUIRE(run_training(run.experiment, load_data(run.experiment.data, 0), *device, run.options, interruption, watch) ==
          RunStatus::done);
  CHECK(watch.num_stages == num_stages);
  CHECK(watch.reserved_after == 0);
  CHECK(watch.peaks.size() == 1);
  // A row of the summary for each stage, and what the heap keeps apart.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep what is freed
  CHECK(watch.resident_at_end - watch.resident_of_some < (std::int64_t{1} << 20));
#endif
}

TEST_CASE("a stage whose data is missing loses none before it") {
  const OutputFolder folder;
  std::string yaml = staged_experiment;
  yaml = yaml.substr(0, yaml.find("  - {name: large"));
  // Declared whole, so that it can be planned before it is there.
  yaml +=
      "  - {name: lost, data: {type: arrays, train: nowhere.npy, shape: [6, 6, 2], classes: 4, samples: 44, "
      "validation_samples: 12}}\n";
  StagedRun run(yaml, folder.path("run"));
  CHECK_THROWS_AS(run(), DataError);
  CHECK(run.events.numbers.size() == 12);
  REQUIRE(run.events.ends.size() == 1);
  CHECK(run.events.ends.back().status == "failed");
  CHECK_FALSE(saved(folder.path("run"), 12).empty());
}

TEST_CASE("stages that are not purged hold what they are planned to, and learn what purged ones learn") {
  check_stages_in_one_cache(*make_cpu_device(2));
}

TEST_CASE("a run that goes on inside a stage that is not purged begins with nothing, and learns the same") {
  std::string yaml = staged_experiment;
  for (const char* const name : {"name: large, ", "name: other, "})
    yaml.replace(yaml.find(name), std::string(name).size(), std::string(name) + "purge: false, ");
  const OutputFolder folder;
  StagedRun purged(staged_experiment, folder.path("purged"));
  REQUIRE(purged() == RunStatus::done);
  StagedRun whole(yaml, folder.path("whole"));
  REQUIRE(whole() == RunStatus::done);
  CHECK(whole.events.losses == purged.events.losses);
  CHECK((saved(folder.path("whole"), 29) == saved(folder.path("purged"), 29)));
  CHECK(whole.events.stages[2].purge->reserved_after > 0);
  CHECK(whole.events.stages[2].purge->allocated_after == 0);
  CHECK(whole.events.stages[3].purge->reserved_after == 0);
  // At the end of the stage before, within it, and behind it.
  const int stop = GENERATE(12, 14, 16, 19);
  StagedRun first(yaml, folder.path("halves"));
  first.events.interrupt_after = stop;
  REQUIRE(first() == RunStatus::interrupted);
  StagedRun second(yaml, folder.path("halves"));
  second.options.resume = true;
  REQUIRE(second() == RunStatus::done);
  CHECK((saved(folder.path("halves"), 29) == saved(folder.path("whole"), 29)));
  CHECK_FALSE(second.events.stages.front().purge.has_value());
  if (stop == 14) {
    // The plan of what this process does, which begins the stage with an empty device.
    const Experiment& stage = *second.experiment.stages[2].experiment;
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const DataDescription data = describe_data(stage.data, stage.seed);
    const std::int64_t capacity = run_capacity(stage, data, *device, true);
    const MemoryPlan plan = plan_memory(compile_experiment(stage, data, *device, capacity), capacity);
    CHECK(second.events.stages.front().planned_peak_reserved == plan.peak_reserved);
    CHECK(second.events.ends.back().stages.front().peak_reserved == plan.peak_reserved);
  }
  StagedRun from(yaml, folder.path("from"));
  from.options.from_stage = "large";
  REQUIRE(from() == RunStatus::done);
  CHECK_FALSE(from.events.stages.front().purge.has_value());
}

TEST_CASE("a stage that does not fit beside what is cached is purged, and that is planned and told") {
  // Moments settle in a segment that the first stage had for activations, so that those need another one.
  const std::string yaml = R"(
data: {type: synthetic, shape: [64], classes: 4, samples: 640}
model: {layers: [linear: {out: 49152, name: a}, relu, linear: {out: 4, name: b}]}
optimizer: {type: sgd, lr: 0.001}
train: {batch_size: 320, steps: 2}
memory: {limit: 190MiB}
stages: [{name: plain}, {name: moments, purge: false, optimizer: {type: adam, lr: 0.001}}]
)";
  const OutputFolder folder;
  StagedRun run(yaml, folder.path("run")), purged(yaml, folder.path("purged"), {"stages.1.purge=true"});
  REQUIRE(run() == RunStatus::done);
  REQUIRE(purged() == RunStatus::done);
  REQUIRE(run.events.stages.size() == 2);
  const StageEvent::Purge purge = *run.events.stages[1].purge;
  CHECK((purge.to_fit && purge.reserved_before > 0 && purge.reserved_after == 0));
  CHECK_FALSE(purged.events.stages[1].purge->to_fit);
  CHECK(run.events.stages[1].planned_peak_reserved == run.events.ends.back().stages[1].peak_reserved);
  CHECK(run.events.ends.back().stages[1].peak_reserved == purged.events.ends.back().stages[1].peak_reserved);
  CHECK((saved(folder.path("run"), 4) == saved(folder.path("purged"), 4)));

  // With more memory it is kept; with a limit below what is cached it is not.
  StagedRun roomy(yaml, folder.path("roomy"), {"memory.limit=1GiB"});
  REQUIRE(roomy() == RunStatus::done);
  CHECK((roomy.events.stages[1].purge->reserved_after > 0 && !roomy.events.stages[1].purge->to_fit));
  StagedRun limited(yaml, folder.path("limited"),
                    {"memory.limit=1GiB", "stages.1.memory.limit=80MiB", "stages.1.train.batch_size=8"});
  REQUIRE(limited() == RunStatus::done);
  CHECK((limited.events.stages[1].purge->reserved_after == 0 && limited.events.stages[1].purge->to_fit));
}

TEST_CASE("a run that is resumed behind the last step of a stage keeps nothing of it") {
  const OutputFolder folder;
  const std::string yaml = R"(
data: {type: synthetic, shape: [64], classes: 4, samples: 64}
model: {layers: [linear: {out: 4096, name: a}, relu, linear: {out: 4, name: b}]}
optimizer: {type: sgd, lr: 0.001}
train: {batch_size: 32, steps: 2}
memory: {limit: 64MiB}
stages: [{name: first}, {name: second, purge: false}]
)";
  StagedRun whole(yaml, folder.path("whole"));
  REQUIRE(whole() == RunStatus::done);
  CHECK(whole.events.stages[1].purge->reserved_after > 0);
  StagedRun first(yaml, folder.path("parts"));
  first.options.until_stage = "first";
  REQUIRE(first() == RunStatus::done);
  StagedRun second(yaml, folder.path("parts"));
  second.options.resume = true;
  REQUIRE(second() == RunStatus::done);
  REQUIRE(second.events.stages.size() == 1);
  CHECK_FALSE(second.events.stages[0].purge.has_value());
  CHECK(second.events.stages[0].planned_peak_reserved == second.events.ends.back().stages[0].peak_reserved);
  CHECK((saved(folder.path("parts"), 4) == saved(folder.path("whole"), 4)));
}

TEST_CASE("a stage that early stopping ends is followed by one that is planned in what it has really left") {
  const OutputFolder folder;
  const std::string yaml = R"(
data: {type: synthetic, shape: [64], classes: 4, samples: 44, validation_samples: 300}
model: {layers: [linear: {out: 512, name: a}, relu, linear: {out: 4, name: b}]}
optimizer: {type: sgd, lr: 0}
train: {batch_size: 8, epochs: 6, eval_every: 6, early_stopping: {patience: 1}}
memory: {limit: 64MiB}
stages: [{name: a}, {name: b, purge: false, train: {batch_size: 22}}]
)";
  StagedRun run(yaml, folder.path("run"));
  REQUIRE(run() == RunStatus::done);
  REQUIRE(run.events.stages.size() == 2);
  CHECK(run.events.ends.back().stages[0].stopped_early);
  CHECK(run.events.stages[1].purge->reserved_after > 0);
  CHECK(run.events.stages[1].planned_peak_reserved == run.events.ends.back().stages[1].peak_reserved);
}

TEST_CASE("a head, all of the network, and twice the image size are trained as planned, and so is a loss on features") {
  check_stages_of_images(*make_cpu_device(2));
  check_stages_of_features(*make_cpu_device(2));
}
