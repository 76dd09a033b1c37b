#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "engine/config/diagnostic.h"
#include "engine/config/load_experiment.h"

namespace fs = std::filesystem;

namespace trainer {
namespace {

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// Messages name files as they were given, so the tests stand in the folder of the files.
class InFolder {
 public:
  explicit InFolder(const fs::path& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  ~InFolder() { fs::current_path(before_); }
  InFolder(const InFolder&) = delete;
  InFolder& operator=(const InFolder&) = delete;

 private:
  fs::path before_;
};

std::string error_of_file(const std::string& path, const std::vector<std::string>& overrides = {}) {
  try {
    load_experiment(path, overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("every bad file gets the message that is kept beside it") {
  const fs::path folder = fs::path(TRAINER_SOURCE_DIR) / "tests/config/bad";
  const InFolder inside(folder);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(".")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().filename());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() >= 40);
  // TRAINER_UPDATE_GOLDENS=1 writes the messages anew; read the difference before keeping it.
  const bool updates = std::getenv("TRAINER_UPDATE_GOLDENS") != nullptr;
  for (const fs::path& file : files) {
    const std::string message = error_of_file(file.string()) + "\n";
    const fs::path golden = fs::path(file).replace_extension(".expected");
    if (updates) std::ofstream(golden, std::ios::binary) << message;
    INFO(file.string());
    CHECK(message == read(golden));
  }
}

TEST_CASE("all errors of a file are told at once, in the order of its lines") {
  const std::string text =
      "train: {epochs: many}\nsede: 3\nmodel:\n  layers:\n    - lineer: {out: 3}\n    - linear: {out: -3}\n";
  try {
    parse_experiment(text, "four.yaml");
    FAIL("no error");
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    const std::vector<std::string> places{"four.yaml:1:17", "four.yaml:2:1", "four.yaml:5:7", "four.yaml:6:21"};
    std::size_t at = 0;
    for (const std::string& place : places) {
      const std::size_t found = message.find(place + ": error: ", at);
      INFO(place << " in\n" << message);
      REQUIRE(found != std::string::npos);
      at = found;
    }
    CHECK(error.exit_code() == ExitCode::config);
  }
}

TEST_CASE("a mistake in an extended file is told with that file's name, beside those of the file itself") {
  const InFolder inside(fs::path(TRAINER_SOURCE_DIR) / "tests/config/extends");
  const std::string message = error_of_file("of_broken.yaml");
  CHECK(message.find("broken_base.yaml:2:9: error: unknown key 'epoch' in 'train'") != std::string::npos);
  CHECK(message.find("of_broken.yaml:3:1: error: unknown key 'sead'") != std::string::npos);
}

TEST_CASE("a file that is not there, or is a folder, is named") {
  CHECK(error_of_file("nowhere/at-all.yaml") == "cannot read 'nowhere/at-all.yaml': No such file or directory");
  CHECK(error_of_file("/").find("it is a folder") != std::string::npos);
}

TEST_CASE("a later stage can point at a line of the file, or at the argument") {
  const InFolder inside(fs::path(TRAINER_SOURCE_DIR) / "tests/config/extends");
  const Experiment experiment = load_experiment("base.yaml");
  CHECK(std::string(located_error(experiment.layers[1].location, "10 is not 12", "12").what()) ==
        "base.yaml:5:7: error: 10 is not 12\n"
        "    5 |     - linear: {out: 10}\n"
        "      |       ^~~~~~\n"
        "  expected: 12");
  const Experiment overridden = load_experiment("base.yaml", {"model.layers.1={linear: {out: 3}}"});
  CHECK(std::string(located_error(overridden.layers[1].location, "3 is not 12").what()) ==
        "argument 'model.layers.1={linear: {out: 3}}': error: 3 is not 12\n"
        "  | model.layers.1={linear: {out: 3}}\n"
        "  |                 ^~~~~~");
}

TEST_CASE("a later stage's error goes without the line where the file is gone") {
  CHECK(std::string(located_error({"gone.yaml", 3, 4, 2}, "wrong").what()) == "gone.yaml:3:4: error: wrong");
}

TEST_CASE("an error of a configuration carries its places, the first of the file first") {
  const ConfigError error =
      config_error({{{"a.yaml", 9, 2}, "late", "", "", ""}, {{"a.yaml", 3, 4}, "early", "12", "word", "key: 1"}});
  REQUIRE(error.diagnostics().size() == 2);
  CHECK(error.diagnostics()[0].location == SourceLocation{"a.yaml", 3, 4});
  CHECK(error.diagnostics()[0].message == "early");
  CHECK(error.diagnostics()[1].message == "late");
  CHECK(ConfigError("cannot read 'a: error: b'").diagnostics().empty());
}

}  // namespace trainer
