#include "engine/train/files/replaced_run.h"

#include <map>

#include "engine/train/files/durable_file.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/files/run_lock.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

using Files = std::map<std::string, std::string>;

/// All files below a folder, hidden ones too, and what links say.
Files files_below(const std::string& folder) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::path(entry.path()).lexically_relative(folder).string();
    if (entry.is_symlink())
      files[name] = "-> " + fs::read_symlink(entry.path()).string();
    else if (entry.is_regular_file())
      files[name] = file_bytes(entry.path().string());
  }
  return files;
}

/// As a run leaves its folder, with what is not its own beside.
void write_run(const std::string& output, const std::string& text) {
  for (const char* name : {"checkpoints/step-00000003", "checkpoints/step-00000006", "checkpoints/step-7"})
    make_directories_durably(output + "/" + name);
  for (const char* name : {"config.yaml", "notes.txt", "checkpoints/notes.txt", "checkpoints/step-7/notes.txt",
                           "checkpoints/step-00000003/state.json", "checkpoints/step-00000006/state.json"})
    write_bytes(output + "/" + name, text + name);
  write_bytes(output + "/events.jsonl", "{\"event\":\"start\"}\n" + text);
  point_link(output + "/checkpoints/latest", "step-00000006");
}

std::string refusal_of_run(TestRun& run) {
  try {
    run();
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

/// Weights of another model.
std::string other_weights(const OutputFolder& folder) {
  TestRun wide(small_experiment, folder.path("wide"), {"train.steps=0", "model.layers.0.conv2d.out=7"});
  REQUIRE(wide() == RunStatus::done);
  return checkpoint_file(folder.path("wide"), 0, "model.safetensors");
}

}  // namespace

TEST_CASE("A run that steps aside comes back with every byte, and what is not its own never moves") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  write_run(output, "old ");
  const Files before = files_below(output);
  const RunDirectory directory(output);
  const ReplacedRun replaced(output);
  replaced.set_aside();
  CHECK(replaced.is_aside());
  CHECK(directory.holds_run());
  CHECK(directory.checkpoint_steps().empty());
  for (const char* name : {"notes.txt", "checkpoints/notes.txt", "checkpoints/step-7/notes.txt"})
    CHECK(file_bytes(output + "/" + name) == before.at(name));
  directory.prepare();  // a run was killed before its first file
  CHECK((files_below(output) == before));

  replaced.set_aside();
  write_bytes(output + "/events.jsonl", "new events");
  write_bytes(output + "/config.yaml", "new config");
  directory.prepare();
  Files after = files_below(output);
  CHECK(after.at("events.failed.jsonl") == "new events");
  after.erase("events.failed.jsonl");
  CHECK((after == before));

  replaced.set_aside();
  make_directories_durably(directory.checkpoint_path(2));
  directory.settle(2, -1, 3);
  CHECK_FALSE(replaced.is_aside());
  directory.prepare();
  CHECK((files_below(output) == Files{{"notes.txt", before.at("notes.txt")},
                                      {"checkpoints/notes.txt", before.at("checkpoints/notes.txt")},
                                      {"checkpoints/step-7/notes.txt", before.at("checkpoints/step-7/notes.txt")},
                                      {"checkpoints/latest", "-> step-00000002"}}));
}

TEST_CASE("Whenever a run is killed while another steps aside or comes back, that one is whole at the next start") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  write_run(output, "old ");
  const Files before = files_below(output);
  const RunDirectory directory(output);
  const std::string moving = output + "/.replaced.tmp", aside = output + "/.replaced",
                    checkpoints_aside = directory.checkpoints_path() + "/.replaced";
  // The states in which set_aside and bring_back can leave the folder, by how many entries have moved.
  const int num_moved = GENERATE(range(0, 6));
  fs::create_directories(moving);
  fs::create_directories(checkpoints_aside);
  const std::vector<std::pair<std::string, std::string>> entries = {{"checkpoints/latest", checkpoints_aside},
                                                                    {"checkpoints/step-00000003", checkpoints_aside},
                                                                    {"checkpoints/step-00000006", checkpoints_aside},
                                                                    {"config.yaml", moving},
                                                                    {"events.jsonl", moving}};
  for (int i = 0; i < num_moved; ++i) {
    const auto& [name, to] = entries[static_cast<std::size_t>(i)];
    fs::rename(output + "/" + name, to + "/" + fs::path(name).filename().string());
  }
  directory.prepare();
  CHECK((files_below(output) == before));
  CHECK_FALSE(fs::exists(moving));
  CHECK_FALSE(fs::exists(aside));
  CHECK_FALSE(fs::exists(checkpoints_aside));
}

TEST_CASE("What replaces a run is looked at before that one moves, and may be its own weights") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun first(small_experiment, output, {"train.steps=3"});
  REQUIRE(first() == RunStatus::done);
  const Files before = files_below(output);
  TestRun second(small_experiment, output, {"train.steps=0"});
  second.options.overwrite = true;
  for (const std::string& weights : {std::string("typo.safetensors"), output + "/config.yaml", other_weights(folder)}) {
    INFO(weights);
    second.experiment.weights.file = weights;
    CHECK(refusal_of_run(second) != "accepted");
    CHECK((files_below(output) == before));
  }
  second.experiment.weights.file = checkpoint_file(output, 3, "model.safetensors");
  REQUIRE(second() == RunStatus::done);
  CHECK(RunDirectory(output).checkpoint_steps() == std::vector<std::int64_t>{0});
  CHECK(file_bytes(checkpoint_file(output, 0, "model.safetensors")) ==
        before.at("checkpoints/step-00000003/model.safetensors"));
  CHECK(files_below(output).count("config.yaml") == 1);
}

TEST_CASE("A run that ends before its first checkpoint brings back the one that it was to replace") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun first(small_experiment, output, {"train.steps=3"});
  REQUIRE(first() == RunStatus::done);
  const Files before = files_below(output);
  TestRun second(small_experiment, output, {"optimizer.lr=1e30", "train.steps=9"});
  second.options.overwrite = true;
  REQUIRE(second() == RunStatus::diverged);
  CHECK((files_below(output) == before));
  CHECK(second.events.ends.back().failed_events == output + "/events.failed.jsonl");
}

TEST_CASE("A run killed before its first checkpoint is followed by the one that it was to replace") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun first(small_experiment, output, {"train.steps=3"});
  REQUIRE(first() == RunStatus::done);
  const Files before = files_below(output);
  ReplacedRun(output).set_aside();
  TestRun second(small_experiment, output, {"train.steps=3"});
  CHECK_THAT(refusal_of_run(second), Contains("already holds a run"));
  CHECK((files_below(output) == before));
}

TEST_CASE("Files that no run wrote are not replaced") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  make_directories_durably(output);
  TestRun run(small_experiment, output, {"train.steps=3"});
  run.options.overwrite = GENERATE(false, true);
  write_bytes(output + "/events.jsonl", "{\"mine\": 1}\n");
  CHECK_THAT(refusal_of_run(run), Contains(output + "/events.jsonl") && Contains("output=FOLDER"));
  CHECK(file_bytes(output + "/events.jsonl") == "{\"mine\": 1}\n");
  fs::remove(output + "/events.jsonl");
  write_bytes(output + "/config.yaml", "mine");
  CHECK_THAT(refusal_of_run(run), Contains(output + "/config.yaml") && Contains("output=FOLDER"));
  CHECK(file_bytes(output + "/config.yaml") == "mine");
  fs::remove(output + "/config.yaml");
  CHECK(run() == RunStatus::done);
}

TEST_CASE("What a run is to replace or go on from is settled while no other run can write to the folder") {
  const OutputFolder folder;
  const std::string output = folder.path("run");
  TestRun first(small_experiment, output, {"train.steps=3"});
  REQUIRE(first() == RunStatus::done);
  const RunLock other(output);
  TestRun second(small_experiment, output, {"train.steps=3"});
  second.options.resume = GENERATE(false, true);
  CHECK_THAT(refusal_of_run(second), Contains("another trainer is writing"));
}

TEST_CASE("A run that is refused leaves no folders") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("a") + "/b/run");
  run.experiment.weights.file = "typo.safetensors";
  CHECK(refusal_of_run(run) != "accepted");
  CHECK_FALSE(fs::exists(folder.path("a")));
}
