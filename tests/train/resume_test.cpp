#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <zlib.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "engine/train/files/run_directory.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// What a run left behind after its last step, and its losses by step.
struct Outcome {
  std::string model, optimizer;
  std::vector<double> losses;
};

Outcome outcome_of(const std::string& output, int step, const std::vector<StepEvent>& steps) {
  Outcome outcome{file_bytes(checkpoint_file(output, step, "model.safetensors")),
                  file_bytes(checkpoint_file(output, step, "optimizer.safetensors")),
                  {}};
  for (const StepEvent& event : steps) outcome.losses.push_back(event.loss);
  return outcome;
}

std::string refusal(TestRun& run) {
  try {
    run();
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

const std::vector<std::string> killed_run_overrides = {"train.steps=60", "checkpoint.every=4", "train.eval_every=20"};
constexpr const char* killed_output_variable = "TRAINER_TEST_KILLED_RUN";

std::int64_t newest_step(const std::string& output) {
  const std::vector<std::int64_t> steps = RunDirectory(output).checkpoint_steps();
  return steps.empty() ? -1 : steps.back();
}

void change_byte(const std::string& path, std::size_t position) {
  std::string bytes = file_bytes(path);
  bytes.at(position) = static_cast<char>(bytes.at(position) ^ 0x20);
  write_bytes(path, bytes);
}

}  // namespace

TEST_CASE("Forty steps equal twenty, a resumption and twenty more, bit for bit") {
  const OutputFolder folder;
  // Steps at and between epochs (of 5 steps) and evaluations (every 8).
  const int stop = GENERATE(1, 20, 8, 17);
  const int num_threads = stop == 20 ? 2 : 1;
  TestRun whole(small_experiment, folder.path("whole"));
  whole.num_threads = num_threads;
  REQUIRE(whole() == RunStatus::done);
  const Outcome expected = outcome_of(folder.path("whole"), 40, whole.events.steps);
  REQUIRE(expected.losses.size() == 40);

  TestRun first(small_experiment, folder.path("halves"));
  first.num_threads = num_threads;
  first.events.interrupt_after = stop;
  REQUIRE(first() == RunStatus::interrupted);
  CHECK(first.events.ends.back().status == "interrupted");
  CHECK(first.events.steps.back().step == stop);

  TestRun second(small_experiment, folder.path("halves"));
  second.num_threads = num_threads;
  second.options.resume = true;
  REQUIRE(second() == RunStatus::done);
  CHECK(second.events.starts.front().first_step == stop + 1);
  std::vector<StepEvent> steps = first.events.steps;
  steps.insert(steps.end(), second.events.steps.begin(), second.events.steps.end());
  const Outcome actual = outcome_of(folder.path("halves"), 40, steps);
  CHECK(actual.losses == expected.losses);
  CHECK((actual.model == expected.model));
  CHECK((actual.optimizer == expected.optimizer));

  // Every evaluation took place once, with the same results.
  std::vector<EvalEvent> evaluations = first.events.evaluations;
  evaluations.insert(evaluations.end(), second.events.evaluations.begin(), second.events.evaluations.end());
  REQUIRE(evaluations.size() == whole.events.evaluations.size());
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    CHECK(evaluations[i].step == whole.events.evaluations[i].step);
    CHECK(evaluations[i].loss == whole.events.evaluations[i].loss);
    CHECK(evaluations[i].best == whole.events.evaluations[i].best);
  }
}

TEST_CASE("A run that is to be killed", "[.killed-run]") {
  const char* output = std::getenv(killed_output_variable);
  REQUIRE(output != nullptr);
  TestRun run(small_experiment, output, killed_run_overrides);
  run.options.resume = !RunDirectory(output).checkpoint_steps().empty();
  run.options.overwrite = !run.options.resume;
  run();
}

TEST_CASE("A run killed at random moments and resumed ends as if it had not been") {
  const OutputFolder folder;
  TestRun whole(small_experiment, folder.path("whole"), killed_run_overrides);
  REQUIRE(whole() == RunStatus::done);
  const Outcome expected = outcome_of(folder.path("whole"), 60, whole.events.steps);

  const std::string output = folder.path("killed");
  setenv(killed_output_variable, output.c_str(), 1);
  std::mt19937 random(20);
  int num_killed = 0;
  std::int64_t reached = -1;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
      execl("/proc/self/exe", "test_train", "[.killed-run]", static_cast<char*>(nullptr));
      _exit(127);
    }
    // At some moment after it has got further than the one before.
    int status = 0;
    pid_t ended = 0;
    while (ended == 0 && newest_step(output) <= reached) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ended = waitpid(child, &status, WNOHANG);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    if (ended == 0) {
      kill(child, SIGKILL);
      REQUIRE(waitpid(child, &status, 0) == child);
    }
    if (WIFSIGNALED(status)) ++num_killed;
    reached = newest_step(output);
    // Whatever is there under a checkpoint's name is whole.
    for (const std::int64_t step : RunDirectory(output).checkpoint_steps()) {
      CHECK_NOTHROW(read_checkpoint(RunDirectory(output).checkpoint_path(step)));
    }
  }
  CHECK(num_killed >= 1);

  TestRun last(small_experiment, output, killed_run_overrides);
  last.options.resume = !RunDirectory(output).checkpoint_steps().empty();
  last.options.overwrite = !last.options.resume;
  REQUIRE(last() == RunStatus::done);
  const Outcome actual = outcome_of(output, 60, last.events.steps);
  CHECK((actual.model == expected.model));
  CHECK((actual.optimizer == expected.optimizer));
  const std::size_t skipped = expected.losses.size() - actual.losses.size();
  CHECK(std::equal(actual.losses.begin(), actual.losses.end(), expected.losses.begin() + skipped));
  for (const auto& entry : std::filesystem::directory_iterator(output + "/checkpoints")) {
    CHECK_THAT(entry.path().filename().string(), !Contains(".tmp"));
  }
}

TEST_CASE("The newest checkpoints and the best one are kept, with links to the last and the best") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun run(small_experiment, output, {"train.eval_every=2", "checkpoint.every=5", "checkpoint.keep=2"});
  REQUIRE(run() == RunStatus::done);
  std::int64_t best_step = 0;
  double best = 1e300;
  for (const EvalEvent& event : run.events.evaluations) {
    CHECK(event.best == (event.loss < best));
    if (event.loss < best) best_step = event.step;
    best = std::min(best, event.loss);
  }
  CHECK(run.events.ends.back().best_step == best_step);
  CHECK(run.events.ends.back().best_value == best);
  const std::vector<std::int64_t> steps = RunDirectory(output).checkpoint_steps();
  CHECK(steps.back() == 40);
  CHECK(steps.size() <= 3);
  CHECK(std::count(steps.begin(), steps.end(), best_step) == 1);
  CHECK(std::filesystem::canonical(output + "/checkpoints/latest") ==
        std::filesystem::canonical(RunDirectory(output).checkpoint_path(40)));
  CHECK(std::filesystem::canonical(output + "/checkpoints/best") ==
        std::filesystem::canonical(RunDirectory(output).checkpoint_path(best_step)));
  CHECK_NOTHROW(parse_experiment(file_bytes(output + "/config.yaml"), "config.yaml"));
}

TEST_CASE("A run that goes on points at its newest checkpoint, which a kill had left without links") {
  const OutputFolder folder;
  const std::string output = folder.path("run"), latest = output + "/checkpoints/latest";
  const std::vector<std::string> overrides = {"checkpoint.every=5", "checkpoint.keep=2", "data.validation_samples=0"};
  TestRun run(small_experiment, output, overrides);
  REQUIRE(run() == RunStatus::done);
  const std::filesystem::path newest = std::filesystem::canonical(latest);
  std::filesystem::remove(latest);
  std::filesystem::create_symlink("step-00000035", latest);
  TestRun resumed(small_experiment, output, overrides);
  resumed.options.resume = true;
  REQUIRE(resumed() == RunStatus::done);
  CHECK(std::filesystem::canonical(latest) == newest);
}

TEST_CASE("Checkpoints are written in steps or epochs, and at the end in any case") {
  const OutputFolder folder;
  const auto saved = [&](const std::string& every) {
    TestRun run(small_experiment, folder.path(every),
                {"checkpoint.every=" + every, "data.validation_samples=0", "train.steps=12", "checkpoint.keep=100"});
    REQUIRE(run() == RunStatus::done);
    return RunDirectory(folder.path(every)).checkpoint_steps();
  };
  CHECK(saved("5") == std::vector<std::int64_t>{5, 10, 12});
  CHECK(saved("1ep") == std::vector<std::int64_t>{5, 10, 12});  // 44 samples are 9 batches of 5: 5 steps of 2
  CHECK(saved("2ep") == std::vector<std::int64_t>{10, 12});
}

TEST_CASE("Zero steps save the initial weights, from which a run with those weights starts") {
  const OutputFolder folder;
  const std::string constant = "schedule=constant";
  TestRun initial(small_experiment, folder.path("initial"), {"train.steps=0", constant});
  REQUIRE(initial() == RunStatus::done);
  CHECK(initial.events.steps.empty());
  TestRun resumed(small_experiment, folder.path("initial"), {constant});
  resumed.options.resume = true;
  REQUIRE(resumed() == RunStatus::done);
  TestRun loaded(small_experiment, folder.path("loaded"), {constant});
  loaded.experiment.weights.file = checkpoint_file(folder.path("copy"), 0, "model.safetensors");
  std::filesystem::create_directories(folder.path("copy") + "/checkpoints/step-00000000");
  TestRun again(small_experiment, folder.path("again"), {"train.steps=0"});
  REQUIRE(again() == RunStatus::done);
  write_bytes(loaded.experiment.weights.file,
              file_bytes(checkpoint_file(folder.path("again"), 0, "model.safetensors")));
  REQUIRE(loaded() == RunStatus::done);
  TestRun plain(small_experiment, folder.path("plain"), {constant});
  REQUIRE(plain() == RunStatus::done);
  CHECK(same_file(folder, "initial", "plain", 40, "model.safetensors"));
  CHECK(same_file(folder, "loaded", "plain", 40, "model.safetensors"));
}

TEST_CASE("An output folder that holds a run is not written to unless asked") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun first(small_experiment, output, {"train.steps=3"});
  REQUIRE(first() == RunStatus::done);
  TestRun second(small_experiment, output, {"train.steps=4"});
  CHECK_THAT(refusal(second), Contains("already holds a run") && Contains("--resume") && Contains("--overwrite"));
  CHECK(second.events.starts.empty());
  write_bytes(output + "/notes.txt", "mine");
  second.options.overwrite = true;
  REQUIRE(second() == RunStatus::done);
  CHECK(RunDirectory(output).checkpoint_steps() == std::vector<std::int64_t>{4});
  CHECK(file_bytes(output + "/notes.txt") == "mine");
  TestRun third(small_experiment, folder.path("elsewhere"));
  third.options.resume = true;
  CHECK_THAT(refusal(third), Contains("no checkpoint"));
}

TEST_CASE("A run that is to replace another but does not fit leaves that one as it is") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun first(small_experiment, output, {"train.steps=3"});
  REQUIRE(first() == RunStatus::done);
  const std::string config = file_bytes(output + "/config.yaml");
  TestRun second(small_experiment, output,
                 {"memory.limit=4MiB", "model.layers.5.linear.out=100000", "data.classes=100000"});
  second.options.overwrite = true;
  REQUIRE(second() == RunStatus::out_of_memory);
  CHECK(second.events.steps.empty());
  CHECK(second.events.starts.at(0).leaves_former_run);
  CHECK(RunDirectory(output).checkpoint_steps() == std::vector<std::int64_t>{3});
  CHECK(file_bytes(output + "/config.yaml") == config);
}

TEST_CASE("A resumed run that no longer fits ends after the steps of its checkpoint") {
  const OutputFolder folder;
  TestRun first(small_experiment, folder.path("run"));
  first.events.interrupt_after = 3;
  REQUIRE(first() == RunStatus::interrupted);
  TestRun second(small_experiment, folder.path("run"), {"memory.limit=1KiB"});
  second.options.resume = true;
  REQUIRE(second() == RunStatus::out_of_memory);
  CHECK(second.events.ends.at(0).steps == 3);
}

TEST_CASE("A run does not replace the configuration it was started with") {
  const OutputFolder folder;
  const std::string config = folder.path("config.yaml");
  write_bytes(config, small_experiment);
  TestRun run(small_experiment, folder.path(), {"train.steps=3"});
  run.experiment.config_path = config;
  run.options.overwrite = GENERATE(false, true);
  CHECK_THAT(refusal(run), Contains(config) && Contains("output=FOLDER"));
  CHECK(file_bytes(config) == small_experiment);
}

TEST_CASE("A run goes on from the configuration that it wrote") {
  const OutputFolder folder;
  TestRun first(small_experiment, folder.path("run"));
  first.events.interrupt_after = 3;
  REQUIRE(first() == RunStatus::interrupted);
  const std::string config = folder.path("run") + "/config.yaml";
  TestRun second(file_bytes(config), folder.path("run"));
  second.experiment.config_path = config;
  second.options.resume = true;
  CHECK(second() == RunStatus::done);
}

TEST_CASE("A resumption refuses a configuration or data that would change the result") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun first(small_experiment, output, {"train.steps=3", "schedule=constant"});
  REQUIRE(first() == RunStatus::done);
  TestRun other(small_experiment, output, {"train.batch_size=6", "optimizer.lr=0.02", "schedule=constant"});
  other.options.resume = true;
  CHECK_THAT(refusal(other),
             Contains("train.batch_size (was 5, is 6)") && Contains("optimizer.lr (was 0.01, is 0.02)"));
  TestRun longer(small_experiment, output,
                 {"train.steps=6", "checkpoint.keep=9", "device.threads=1", "schedule=constant"});
  longer.options.resume = true;
  CHECK(longer() == RunStatus::done);
}

TEST_CASE("A resumption refuses training data whose content has changed, and warns of other validation data") {
  const OutputFolder folder;
  const auto write = [&](const std::string& name, float first) {
    std::string text = "a,b,y\n";
    for (int i = 0; i < 12; ++i) text += fmt::format("{},{},{}\n", i == 0 ? first : 0.1F * i, i * i, i % 2);
    write_bytes(folder.path(name), text);
  };
  write("train.csv", 0);
  write("validation.csv", 0);
  const std::string yaml = fmt::format(
      "data: {{type: csv, train: {}, validation: {}}}\nmodel: {{layers: [linear: {{out: 2}}]}}\ntrain: {{batch_size: "
      "4}}\n",
      folder.path("train.csv"), folder.path("validation.csv"));
  const auto resumed = [&](int num_steps) {
    auto run = std::make_unique<TestRun>(yaml, folder.path("run"),
                                         std::vector<std::string>{fmt::format("train.steps={}", num_steps)});
    run->options.resume = num_steps > 2;
    return run;
  };
  REQUIRE((*resumed(2))() == RunStatus::done);
  REQUIRE((*resumed(3))() == RunStatus::done);
  write("train.csv", 0.5);
  CHECK_THAT(refusal(*resumed(4)), Contains("made with other training data") && Contains("--weights"));
  write("train.csv", 0);
  write("validation.csv", 0.5);
  const std::unique_ptr<TestRun> other = resumed(4);
  other->num_warnings = 1;
  REQUIRE((*other)() == RunStatus::done);
  CHECK_THAT(other->events.warnings.front().message, Contains("the validation data is not what it was"));

  // A checkpoint of before the contents were saved still resumes.
  const std::string state_path = checkpoint_file(folder.path("run"), 4, "state.json");
  nlohmann::json state = nlohmann::json::parse(file_bytes(state_path));
  REQUIRE(state.erase("data") == 1);
  REQUIRE(state.erase("device") == 1);
  state.erase("crc32");
  const std::string text = state.dump();
  state["crc32"] = fmt::format("{:08x}", crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
  write_bytes(state_path, state.dump(2) + "\n");
  write("train.csv", 0.5);
  REQUIRE((*resumed(5))() == RunStatus::done);
  CHECK(newest_step(folder.path("run")) == 5);
}

TEST_CASE("A resumption with another number of threads is warned of") {
  const OutputFolder folder;
  const auto resumed = [&](int num_steps, int num_threads) {
    TestRun run(small_experiment, folder.path("run"), {fmt::format("train.steps={}", num_steps), "schedule=constant"});
    run.options.resume = num_steps > 2;
    run.num_threads = num_threads;
    run.num_warnings = num_steps == 4 ? 1 : 0;
    REQUIRE(run() == RunStatus::done);
    return run.events.warnings;
  };
  resumed(2, 1);
  resumed(3, 1);
  const std::vector<WarningEvent> warnings = resumed(4, 2);
  CHECK_THAT(warnings.front().message, Contains("was made on cpu (") && Contains(", 1 thread)") &&
                                           Contains(", 2 threads)") && Contains("not bit for bit"));
  resumed(5, 2);  // the newest checkpoint was made so
}

TEST_CASE("A run of no steps evaluates the weights it begins with, as planned") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"), {"train.steps=0"});
  REQUIRE(run() == RunStatus::done);
  REQUIRE(run.events.evaluations.size() == 1);
  const EvalEvent& evaluation = run.events.evaluations.front();
  CHECK(evaluation.step == 0);
  CHECK(evaluation.samples == 12);
  CHECK(evaluation.best);
  CHECK(run.events.ends.back().loss == evaluation.loss);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Program program = compile(run.experiment, run.data.description, *device);
  const MemoryPlan plan = make_memory_plan(program, RunSchedule(run.experiment, run.data.description),
                                           unlimited_capacity, allocator_options(run.experiment));
  REQUIRE(plan.find(0, true) != nullptr);
  CHECK(evaluation.memory.step == *plan.find(0, true));
  CHECK(run.events.ends.back().peak_allocated == plan.peak_allocated);

  TestRun without(small_experiment, folder.path("without"), {"train.steps=0", "data.validation_samples=0"});
  REQUIRE(without() == RunStatus::done);
  CHECK(without.events.evaluations.empty());
  // Once is enough: what was evaluated is not evaluated again by a run that goes on.
  TestRun again(small_experiment, folder.path("run"), {"train.steps=0"});
  again.options.resume = true;
  REQUIRE(again() == RunStatus::done);
  CHECK(again.events.evaluations.empty());
  CHECK(again.events.checkpoints.empty());
}

TEST_CASE("A damaged or foreign checkpoint is refused with the reason, the previous one taken only when asked") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun first(small_experiment, output,
                {"train.steps=6", "checkpoint.every=3", "data.validation_samples=0", "schedule=constant"});
  REQUIRE(first() == RunStatus::done);
  const std::string newest = RunDirectory(output).checkpoint_path(6);

  struct Case {
    const char* name;
    void (*damage)(const std::string&);
    const char* reason;
  };
  const Case damage = GENERATE(values<Case>({
      {"a weight changed", [](const std::string& path) { change_byte(path + "/model.safetensors", 2000); },
       "contents of model.safetensors have changed"},
      {"a moment changed", [](const std::string& path) { change_byte(path + "/optimizer.safetensors", 2000); },
       "contents of optimizer.safetensors have changed"},
      {"cut off", [](const std::string& path) { std::filesystem::resize_file(path + "/model.safetensors", 1000); },
       "has 1000 bytes where"},
      {"missing", [](const std::string& path) { std::filesystem::remove(path + "/optimizer.safetensors"); },
       "optimizer.safetensors is missing"},
      {"no state", [](const std::string& path) { std::filesystem::remove(path + "/state.json"); },
       "state.json is missing"},
      {"no JSON", [](const std::string& path) { write_bytes(path + "/state.json", "{"); }, "not a JSON object"},
      {"foreign", [](const std::string& path) { write_bytes(path + "/state.json", "{\"step\": 6}"); },
       "not written by trainer"},
      {"state changed",
       [](const std::string& path) {
         std::string text = file_bytes(path + "/state.json");
         text.replace(text.find("\"pass\": "), 9, "\"pass\": 9");
         write_bytes(path + "/state.json", text);
       },
       "contents of state.json have changed"},
      {"newer format",
       [](const std::string& path) {
         std::string text = file_bytes(path + "/state.json");
         const std::string key = "\"format_version\": ";
         text.replace(text.find(key), key.size() + 1, key + "9");
         write_bytes(path + "/state.json", text);
       },
       "version 9"},
  }));
  INFO(damage.name);
  damage.damage(newest);
  TestRun resumed(small_experiment, output, {"train.steps=9", "data.validation_samples=0", "schedule=constant"});
  resumed.options.resume = true;
  CHECK_THAT(refusal(resumed), Contains(newest) && Contains(damage.reason) && Contains("--accept-previous"));
  resumed.options.accept_previous = true;
  REQUIRE(resumed() == RunStatus::done);
  CHECK(resumed.events.starts.back().first_step == 4);
}

TEST_CASE("A run continues from a checkpoint elsewhere and leaves it as it is") {
  const OutputFolder folder;
  TestRun first(small_experiment, folder.path("a"), {"checkpoint.every=10", "checkpoint.keep=9", "schedule=constant"});
  REQUIRE(first() == RunStatus::done);
  TestRun second(small_experiment, folder.path("b"), {"schedule=constant"});
  second.options.resume_from = RunDirectory(folder.path("a")).checkpoint_path(20);
  REQUIRE(second() == RunStatus::done);
  CHECK(second.events.starts.front().first_step == 21);
  CHECK(same_file(folder, "a", "b", 40, "model.safetensors"));
  // Inside its own folder: what came after the checkpoint is replaced where that is asked for.
  TestRun third(small_experiment, folder.path("a"),
                {"checkpoint.every=10", "train.steps=30", "checkpoint.keep=9", "schedule=constant"});
  third.options.resume_from = RunDirectory(folder.path("a")).checkpoint_path(20);
  const std::vector<std::int64_t> steps = RunDirectory(folder.path("a")).checkpoint_steps();
  CHECK_THAT(refusal(third), Contains("would remove") && Contains("step-00000030") && Contains("step-00000040") &&
                                 !Contains("step-00000010") && Contains("--overwrite") && Contains("output=FOLDER"));
  CHECK(RunDirectory(folder.path("a")).checkpoint_steps() == steps);
  third.options.overwrite = true;
  REQUIRE(third() == RunStatus::done);
  CHECK(RunDirectory(folder.path("a")).checkpoint_steps().back() == 30);
}

TEST_CASE("A run continues from a checkpoint that was moved within its folder") {
  const OutputFolder folder;
  const RunDirectory directory(folder.path("a"));
  for (const bool moves_all : {true, false}) {
    TestRun first(small_experiment, directory.path(),
                  {"checkpoint.every=20", "checkpoint.keep=9", "schedule=constant"});
    first.options.overwrite = true;
    REQUIRE(first() == RunStatus::done);
    const std::string moved = directory.path() + "/kept";
    std::filesystem::create_directories(moved);
    std::filesystem::rename(directory.checkpoint_path(20), moved + "/step-00000020");
    if (moves_all) std::filesystem::remove_all(directory.path() + "/checkpoints");
    TestRun resumed(small_experiment, directory.path(),
                    {"checkpoint.every=20", "checkpoint.keep=9", "schedule=constant"});
    resumed.options.resume_from = moved + "/step-00000020";
    if (!moves_all) {
      CHECK_THAT(refusal(resumed), Contains("would remove") && Contains("step-00000040"));
      resumed.options.overwrite = true;
    }
    REQUIRE(resumed() == RunStatus::done);
    CHECK(resumed.events.starts.front().first_step == 21);
    CHECK(directory.checkpoint_steps().back() == 40);
    std::filesystem::remove_all(moved);
  }
}

TEST_CASE("Initial weights must have the model's names and shapes") {
  const OutputFolder folder;
  TestRun wide(small_experiment, folder.path("wide"), {"train.steps=0", "model.layers.0.conv2d.out=7"});
  REQUIRE(wide() == RunStatus::done);
  TestRun run(small_experiment, folder.path("run"));
  run.experiment.weights.file = checkpoint_file(folder.path("wide"), 0, "model.safetensors");
  CHECK_THAT(refusal(run), Contains("0.weight") && Contains("7×2×3×3") && Contains("6×2×3×3"));
  CHECK(run.events.starts.empty());
  run.experiment.weights.file = checkpoint_file(folder.path("wide"), 0, "optimizer.safetensors");
  CHECK_THAT(refusal(run), Contains("0.weight: only the model has it"));
}
