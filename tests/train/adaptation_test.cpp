#include <algorithm>
#include <cmath>

#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/training_loop.h"
#include "tests/train/wrapped_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

using Settings = std::vector<std::string>;

constexpr std::int64_t kibibyte = 1024;
constexpr auto whole_folders = std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks;
const Settings adapts = {"memory.on_oom=adapt"};

/// Nothing in it reads its neighbours in the batch.
constexpr const char* plain_experiment = R"(
name: plain
seed: 5
data: {type: synthetic, shape: [40], classes: 6, samples: 672, validation_samples: 20}
model: {layers: [linear: {out: 64}, gelu, linear: {out: 64}, tanh, linear: {out: 64}, silu, linear: {out: 6}]}
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
schedule: {type: cosine, warmup_steps: 2}
train: {batch_size: 192, steps: 14, eval_every: 6}
checkpoint: {every: 1, keep: 100}
memory: {allocator: caching}
)";

/// Batch norm and dropout see each way to cut the batch as another one.
constexpr const char* mixing_experiment = R"(
name: mixing
seed: 7
data: {type: synthetic, shape: [16, 16, 2], classes: 4, samples: 44, validation_samples: 12}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - dropout: {p: 0.25}
    - flatten
    - linear: {out: 4, name: head}
optimizer: {type: adamw, lr: 0.01, weight_decay: 0.01}
train: {batch_size: 12, steps: 14, eval_every: 6}
checkpoint: {every: 1, keep: 100}
memory: {allocator: caching}
)";

/// With times to compare changes by.
struct RatedRun : TestRun {
  explicit RatedRun(const std::string& yaml, const std::string& output, const Settings& overrides = {})
      : TestRun(yaml, output, overrides) {
    options.rates = assumed_cpu_rates(1);
  }
};

Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

/// Counts them one by one.
std::int64_t micro_batches_of(const Experiment& experiment, std::int64_t num_samples, std::int64_t num_steps) {
  const std::int64_t batch_size = experiment.train.batch_size.number().value();
  std::int64_t num_passes = 0;
  for (std::int64_t steps = 0; steps < num_steps;) {
    std::int64_t in_step = 0;
    for (std::int64_t left = num_samples; left > 0 && steps < num_steps; left -= batch_size) {
      ++num_passes;
      const bool ends_step = ++in_step == experiment.train.accumulation_steps || left <= batch_size;
      if (!ends_step) continue;
      in_step = 0;
      ++steps;
    }
  }
  return num_passes;
}

/// Trains to the end from the checkpoint of `step` under `from`, saving under `to`, with a loop and an executor that
/// know nothing of how that checkpoint came about.
std::vector<StepEvent> steps_from(const RatedRun& run, const std::string& from, std::int64_t step,
                                  const Experiment& changed, const std::string& to) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const DataDescription& data = run.data.description;
  const CompiledExperiment compiled = compile_experiment(changed, data, *device, unlimited_capacity);
  const RunDirectory directory(to);
  make_directories_durably(directory.path());
  const TrainingOptions options;
  const Interruption interruption;
  RecordingSink events;
  RunProgress progress;
  Session session(compiled, run.data, *device, std::int64_t{1} << 30);
  Executor& executor = session.executor();
  const Program& program = compiled.program;
  executor.begin_step(0);
  executor.run(program.load, {});
  executor.clear(program.loss_statistics);
  const Checkpoint checkpoint = read_checkpoint(RunDirectory(from).checkpoint_path(step));
  restore_checkpoint(checkpoint, executor);
  if (!program.refresh.instructions.empty()) executor.run(program.refresh, {});
  progress.resume(checkpoint.state);
  progress.state.pass = micro_batches_of(compiled.experiment, data.num_train, step);
  ProgressSaver saver(program, directory, "test");
  TrainingLoop loop(session, options, interruption, events, progress, &saver);
  REQUIRE(loop.run() == RunStatus::done);
  return events.steps;
}

std::vector<double> losses_of(const std::vector<StepEvent>& steps) {
  std::vector<double> losses;
  for (const StepEvent& step : steps) losses.push_back(step.loss);
  return losses;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return largest;
}

struct AdaptingSink : RecordingSink {
  std::function<void(const AdaptEvent&)> at_adaptation;
  std::function<void(const EvalEvent&)> at_evaluation;
  std::function<void(const StepEvent&)> at_step;
  void take(const Event& event) override {
    RecordingSink::take(event);
    if (const auto* adaptation = std::get_if<AdaptEvent>(&event); adaptation != nullptr && at_adaptation)
      at_adaptation(*adaptation);
    if (const auto* evaluation = std::get_if<EvalEvent>(&event); evaluation != nullptr && at_evaluation)
      at_evaluation(*evaluation);
    if (const auto* step = std::get_if<StepEvent>(&event); step != nullptr && at_step) at_step(*step);
  }
};

RunStatus run_with(RatedRun& run, Device& device, AdaptingSink& sink) {
  sink.interruption = &run.interruption;
  return run_training(run.experiment, run.data, device, run.options, run.interruption, sink);
}

/// Runs as `given` to the end, as the run did that was adapted; then for each adaptation from where it was made.
std::vector<double> expected_losses(const char* yaml, const Settings& given, const AdaptingSink& adapted,
                                    const OutputFolder& folder) {
  RatedRun run(yaml, folder.path("given"), given);
  run.options.overwrite = true;
  REQUIRE(run() == RunStatus::done);
  std::vector<double> losses = losses_of(run.events.steps);
  std::string from = folder.path("given");
  // Where an evaluation did not fit, the step before it is not repeated.
  const auto steps_before = [](const AdaptEvent& event) {
    return event.context.phase == Phase::eval && !event.context.planned ? event.step : event.step - 1;
  };
  for (std::size_t i = 0; i < adapted.adaptations.size(); ++i) {
    const std::int64_t done = steps_before(adapted.adaptations[i]);
    const bool is_last = i + 1 == adapted.adaptations.size();
    if (!is_last && steps_before(adapted.adaptations[i + 1]) == done) continue;  // it made no step
    const Experiment& changed = adapted.adaptations[i].change.experiment;
    const std::string to = folder.path("part" + std::to_string(i));
    std::filesystem::remove_all(to);
    losses.resize(static_cast<std::size_t>(done));
    for (const double loss : losses_of(steps_from(run, from, done, changed, to))) losses.push_back(loss);
    from = to;
  }
  return losses;
}

}  // namespace

TEST_CASE("An adapted run goes on with the losses of one that has the adapted settings from that step on",
          "[exhaustive]") {
  const char* yaml = GENERATE(plain_experiment, mixing_experiment);
  const Settings given =
      GENERATE(Settings{}, Settings{"train.amp=fp16", "optimizer={type: sgd, lr: 0.05, momentum: 0.9}"},
               Settings{"optimizer={type: adam, lr: 0.01}", "memory.allocator=planned"});
  const bool is_asynchronous = GENERATE(false, true);
  const OutputFolder folder;
  RatedRun reference(yaml, folder.path("reference"), with(given, {"memory.allocator=planned"}));
  const std::unique_ptr<Device> cpu = make_cpu_device(1);
  const std::int64_t peak =
      make_memory_plan(compile(reference.experiment, reference.data.description, *cpu),
                       RunSchedule(reference.experiment, reference.data.description), unlimited_capacity)
          .peak_reserved;
  // Steps 1 to 4 are made with all there is, so that the first adapted step is 5.
  RatedRun begun(yaml, folder.path("run"), with(given, adapts));
  begun.events.interrupt_after = 4;
  REQUIRE(begun() == RunStatus::interrupted);
  int num_adapted = 0;
  for (const int percent : {95, 80, 60, 45}) {
    INFO(yaml << " at " << percent << " % of " << peak);
    const std::string output = folder.path("run" + std::to_string(percent));
    std::filesystem::copy(folder.path("run"), output, whole_folders);
    RatedRun run(yaml, output, with(given, adapts));
    run.options.resume = true;
    WrappedDevice device(make_cpu_device(1));
    device.is_asynchronous = is_asynchronous;
    device.tells_what_is_left = true;
    device.memory.real_capacity = peak * percent / 100;
    AdaptingSink events;
    const RunStatus status = run_with(run, device, events);
    CHECK(device.memory.held == 0);
    if (status == RunStatus::out_of_memory) {
      CHECK(events.failures.size() == 1);
      continue;
    }
    REQUIRE(status == RunStatus::done);
    CHECK(events.failures.empty());
    CHECK(events.warnings.empty());
    REQUIRE_FALSE(events.adaptations.empty());
    ++num_adapted;
    const AdaptEvent& last = events.adaptations.back();
    CAPTURE(last.change.set);
    CHECK(last.step == 5);
    CHECK(last.change.capacity <= device.memory.real_capacity);
    REQUIRE(events.steps.size() == 10);
    CHECK(events.steps.front().step == 5);
    for (const StepEvent& step : events.steps) CHECK(step.memory.step.peak_reserved <= device.memory.real_capacity);
    const std::vector<double> all = expected_losses(yaml, given, events, folder);
    CHECK(losses_of(events.steps) == std::vector<double>(all.begin() + 4, all.end()));

    // Where batch norm and dropout see the same, a run that had started so has these losses too.
    Settings set = given;
    for (const AdaptEvent& event : events.adaptations) set = with(set, event.change.set);
    const NumbersEffect numbers =
        std::max_element(events.adaptations.begin(), events.adaptations.end(),
                         [](const AdaptEvent& a, const AdaptEvent& b) { return a.change.numbers < b.change.numbers; })
            ->change.numbers;
    if (numbers == NumbersEffect::other) continue;
    RatedRun started_so(yaml, folder.path("so" + std::to_string(percent)), set);
    REQUIRE(started_so() == RunStatus::done);
    std::vector<double> losses = losses_of(started_so.events.steps);
    losses.erase(losses.begin(), losses.begin() + 4);
    if (numbers == NumbersEffect::same_bits) {
      CHECK(losses == losses_of(events.steps));
    } else if (started_so.experiment.train.amp == Amp::off) {
      CHECK(largest_difference(losses, losses_of(events.steps)) < 1e-5);
    }
  }
  CHECK(num_adapted >= 2);
}

TEST_CASE("An evaluation that does not fit is made again in another way, and no step is repeated") {
  const bool is_asynchronous = GENERATE(false, true);
  const OutputFolder folder;
  const Settings large = {"data.validation_samples=4000", "train.eval_batch_size=4000"};
  RatedRun whole(mixing_experiment, folder.path("whole"), large);
  REQUIRE(whole() == RunStatus::done);
  RatedRun run(mixing_experiment, folder.path("run"), with(large, adapts));
  WrappedDevice device(make_cpu_device(1));
  device.is_asynchronous = is_asynchronous;
  device.tells_what_is_left = true;
  // Staged batches are of the evaluation's size.
  device.memory.real_capacity = (is_asynchronous ? 26 : 4) * 1024 * kibibyte;
  AdaptingSink events;
  REQUIRE(run_with(run, device, events) == RunStatus::done);
  REQUIRE(events.adaptations.size() == 1);
  const AdaptEvent& event = events.adaptations[0];
  CHECK(event.step == 6);
  CHECK(event.context.phase == Phase::eval);
  CHECK(event.change.numbers == NumbersEffect::same_rounding);
  REQUIRE(events.steps.size() == 14);
  CHECK(losses_of(events.steps) == losses_of(whole.events.steps));
  CHECK(same_file(folder, "run", "whole", 14, "model.safetensors"));
  CHECK(same_file(folder, "run", "whole", 14, "optimizer.safetensors"));
  REQUIRE(events.evaluations.size() == whole.events.evaluations.size());
  for (std::size_t i = 0; i < events.evaluations.size(); ++i) {
    CHECK(events.evaluations[i].step == whole.events.evaluations[i].step);
    CHECK(events.evaluations[i].loss == Approx(whole.events.evaluations[i].loss).epsilon(1e-6));
  }
}

TEST_CASE("A run adapts when memory goes in its middle, and again each time more of it goes") {
  const bool is_asynchronous = GENERATE(false, true);
  const OutputFolder folder;
  // The activations of a whole batch are of the large pool, those of the odd last one, in step 4, of the small. When
  // memory has become scarce their segments replace the large one, and step 5 finds no room for that again, nor for a
  // segment with places for what it allocates.
  const Settings wide = {"data.shape=[90, 90, 1]", "data.samples=28", "train.batch_size=8", "train.eval_every=100"};
  const auto run_until = [&](const std::string& name, AdaptingSink& events, int num_shrinks) {
    RatedRun run(mixing_experiment, folder.path(name), with(wide, {"train.steps=10", "memory.on_oom=adapt"}));
    WrappedDevice device(make_cpu_device(1));
    device.is_asynchronous = is_asynchronous;
    device.tells_what_is_left = true;
    events.at_step = [&](const StepEvent& step) {
      if (step.step == 2) device.memory.real_capacity = device.memory.held * 35 / 100;
    };
    events.at_adaptation = [&](const AdaptEvent& event) {
      CHECK(event.change.capacity <= device.memory.real_capacity);
      if (static_cast<int>(events.adaptations.size()) <= num_shrinks)
        device.memory.real_capacity = event.change.peak_reserved * 9 / 10;
    };
    const RunStatus status = run_with(run, device, events);
    CHECK(device.memory.held == 0);
    return status;
  };
  const int num_shrinks = GENERATE(0, 2);
  AdaptingSink events;
  REQUIRE(run_until("run", events, num_shrinks) == RunStatus::done);
  REQUIRE(events.adaptations.size() == static_cast<std::size_t>(num_shrinks) + 1);
  CHECK(events.adaptations.front().step == 5);
  for (std::size_t i = 1; i < events.adaptations.size(); ++i)
    CHECK(events.adaptations[i].change.capacity < events.adaptations[i - 1].change.capacity);
  REQUIRE(events.steps.size() == 10);
  CHECK(losses_of(events.steps) == expected_losses(mixing_experiment, with(wide, {"train.steps=10"}), events, folder));
  REQUIRE(events.ends.back().adaptations.size() == events.adaptations.size());
  CHECK(events.ends.back().adaptations.back().set == events.adaptations.back().change.set);
  CHECK(events.ends.back().adaptations.back().step == 5);
}

TEST_CASE("Where nothing fits an adapted run ends in the report, and what it had trained is saved") {
  const OutputFolder folder;
  RatedRun whole(mixing_experiment, folder.path("whole"));
  REQUIRE(whole() == RunStatus::done);
  const Settings large = {"checkpoint.every=100", "data.validation_samples=4000", "train.eval_batch_size=4000"};
  RatedRun run(mixing_experiment, folder.path("run"), with(large, adapts));
  WrappedDevice device(make_cpu_device(1));
  device.tells_what_is_left = true;
  AdaptingSink events;
  events.at_step = [&](const StepEvent& step) {
    if (step.step == 5) device.memory.real_capacity = device.memory.held;
  };
  // All but a KiB goes while the adapted run has its tensors in host memory.
  events.at_adaptation = [&](const AdaptEvent&) { device.memory.real_capacity = kibibyte; };
  REQUIRE(run_with(run, device, events) == RunStatus::out_of_memory);
  CHECK(events.adaptations.size() == 1);
  REQUIRE(events.failures.size() == 1);
  CHECK(events.failures[0].context.step == 0);
  CHECK(events.ends.back().status == "oom");
  CHECK(events.ends.back().steps == 6);
  CHECK(events.ends.back().last_checkpoint == RunDirectory(folder.path("run")).checkpoint_path(6));
  REQUIRE(events.checkpoints.size() == 1);
  CHECK(events.checkpoints[0].step == 6);
  CHECK(device.memory.held == 0);
  CHECK(same_file(folder, "run", "whole", 6, "model.safetensors"));
  CHECK(same_file(folder, "run", "whole", 6, "optimizer.safetensors"));
}

TEST_CASE(
    "Where the host has no memory to hold a run that could adapt, it is saved from the device and ends in the report") {
  const OutputFolder folder;
  RatedRun whole(mixing_experiment, folder.path("whole"));
  REQUIRE(whole() == RunStatus::done);
  const Settings large = {"checkpoint.every=100", "data.validation_samples=4000", "train.eval_batch_size=4000"};
  RatedRun run(mixing_experiment, folder.path("run"), with(large, adapts));
  WrappedDevice device(make_cpu_device(1));
  device.tells_what_is_left = true;
  AdaptingSink events;
  events.at_step = [&](const StepEvent& step) {
    if (step.step != 6) return;  // whose evaluation needs more than is held
    device.memory.real_capacity = device.memory.held;
    device.host_is_full = true;
  };
  REQUIRE(run_with(run, device, events) == RunStatus::out_of_memory);
  CHECK_FALSE(device.host_is_full);
  CHECK(events.adaptations.empty());
  REQUIRE(events.failures.size() == 1);
  CHECK(events.failures[0].context.phase == Phase::eval);
  CHECK(events.ends.back().status == "oom");
  CHECK(events.ends.back().steps == 6);
  CHECK(events.ends.back().passes.total > 0);
  CHECK(events.ends.back().peak_reserved > 0);
  REQUIRE(events.checkpoints.size() == 1);
  CHECK(events.ends.back().last_checkpoint == RunDirectory(folder.path("run")).checkpoint_path(6));
  CHECK(device.memory.held == 0);
  CHECK(same_file(folder, "run", "whole", 6, "model.safetensors"));
  CHECK(same_file(folder, "run", "whole", 6, "optimizer.safetensors"));
}

TEST_CASE("Where a device does not tell what is left, a run adapts until it fits, each time to less") {
  const OutputFolder folder;
  RatedRun run(plain_experiment, folder.path("run"), {"memory.on_oom=adapt", "memory.allocator=planned"});
  WrappedDevice device(make_cpu_device(1));
  device.memory.real_capacity = 200 * kibibyte;  // which the device does not tell
  AdaptingSink events;
  REQUIRE(run_with(run, device, events) == RunStatus::done);
  CHECK(events.adaptations.size() >= 2);
  for (std::size_t i = 1; i < events.adaptations.size(); ++i)
    CHECK(events.adaptations[i].change.capacity < events.adaptations[i - 1].change.capacity);
}

TEST_CASE("What the plan shows not to fit is adapted before the first step") {
  const OutputFolder folder;
  RatedRun former(plain_experiment, folder.path("run"), {"train.steps=2"});
  REQUIRE(former() == RunStatus::done);
  RatedRun run(plain_experiment, folder.path("run"), {"memory.limit=300KiB", "memory.on_oom=adapt"});
  run.options.overwrite = true;
  REQUIRE(run() == RunStatus::done);
  REQUIRE(run.events.adaptations.size() == 1);
  const AdaptEvent& event = run.events.adaptations[0];
  CHECK(event.step == 1);
  CHECK(event.context.planned);
  CHECK(event.capacity == 300 * kibibyte);
  CHECK(event.change.capacity == 300 * kibibyte);
  CHECK(run.events.failures.empty());
  CHECK_FALSE(run.events.starts.back().leaves_former_run);
  CHECK(run.events.ends.back().peak_reserved <= 300 * kibibyte);
  RatedRun started_so(plain_experiment, folder.path("so"), with({"memory.limit=300KiB"}, event.change.set));
  REQUIRE(started_so() == RunStatus::done);
  CHECK(losses_of(run.events.steps) == losses_of(started_so.events.steps));
  CHECK(same_file(folder, "run", "so", 14, "model.safetensors"));

  // Nothing fits, and the former run stays.
  RatedRun hopeless(plain_experiment, folder.path("so"), {"memory.limit=50KiB", "memory.on_oom=adapt"});
  hopeless.options.overwrite = true;
  REQUIRE(hopeless() == RunStatus::out_of_memory);
  CHECK(hopeless.events.adaptations.empty());
  CHECK(hopeless.events.failures.size() == 1);
  CHECK(RunDirectory(folder.path("so")).checkpoint_steps().back() == 14);
}

TEST_CASE("An adapted run that was interrupted resumes with the same command, bit for bit, whatever memory there is") {
  const char* yaml = GENERATE(plain_experiment, mixing_experiment);
  const int percent = GENERATE(95, 80);
  const OutputFolder folder;
  RatedRun probe(yaml, folder.path("probe"), {"memory.allocator=planned"});
  const std::unique_ptr<Device> cpu = make_cpu_device(1);
  const std::int64_t limit = make_memory_plan(compile(probe.experiment, probe.data.description, *cpu),
                                              RunSchedule(probe.experiment, probe.data.description), unlimited_capacity)
                                 .peak_reserved *
                             percent / 100;
  const Settings short_of = {"memory.on_oom=adapt", "memory.limit=" + std::to_string(limit)};
  RatedRun whole(yaml, folder.path("whole"), short_of);
  REQUIRE(whole() == RunStatus::done);
  REQUIRE(whole.events.adaptations.size() == 1);
  const Settings set = whole.events.adaptations[0].change.set;
  const bool is_rounded = whole.events.adaptations[0].change.numbers != NumbersEffect::same_bits;
  RatedRun first(yaml, folder.path("run"), short_of);
  first.events.interrupt_after = 9;
  REQUIRE(first() == RunStatus::interrupted);
  std::filesystem::copy(folder.path("run"), folder.path("ample"), whole_folders);
  std::filesystem::copy(folder.path("run"), folder.path("pasted"), whole_folders);

  RatedRun second(yaml, folder.path("run"), short_of);
  second.options.resume = true;
  REQUIRE(second() == RunStatus::done);
  CHECK(second.events.starts.back().adapted.empty() == !is_rounded);
  CHECK(same_file(folder, "run", "whole", 14, "model.safetensors"));
  CHECK(same_file(folder, "run", "whole", 14, "optimizer.safetensors"));

  RatedRun with_ample(yaml, folder.path("ample"), {"memory.on_oom=adapt"});
  with_ample.options.resume = true;
  REQUIRE(with_ample() == RunStatus::done);
  CHECK(with_ample.events.adaptations.empty());
  if (is_rounded) CHECK(with_ample.events.starts.back().adapted == set);
  CHECK(same_file(folder, "ample", "whole", 14, "model.safetensors"));

  // And with what it was adapted to taken into the configuration.
  RatedRun pasted(yaml, folder.path("pasted"), with({"memory.limit=" + std::to_string(limit)}, set));
  pasted.options.resume = true;
  REQUIRE(pasted() == RunStatus::done);
  CHECK(pasted.events.starts.back().adapted.empty());
  CHECK(same_file(folder, "pasted", "whole", 14, "model.safetensors"));

  RatedRun other(yaml, folder.path("run"), with(short_of, {"optimizer.lr=0.5", "train.steps=16"}));
  other.options.resume = true;
  CHECK_THROWS_AS(other(), DataError);
}
