#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

std::string bytes_in(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("trainer data tells classes and statistics, and writes a sheet of pictures") {
  const ScratchFolder folder;
  const std::string sheet = folder / "sheet.png";
  const ProcessResult result = run_trainer({"data", "configs/quickstart.yaml", "--sheet", sheet});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Contains("1,437 samples, each u8 8×8×1") && Contains("one of 10 classes") &&
                             Contains("normalize: {mean: [0.3045], std: [0.3755]}") &&
                             Contains("sheet.png: 32 training samples"));
  const std::string written = bytes_in(sheet);
  CHECK(written.starts_with("\x89PNG"));
  // The same again in its place; fewer samples make another.
  CHECK(run_trainer({"data", "configs/quickstart.yaml", "--sheet", sheet}).exit_code == 0);
  CHECK(bytes_in(sheet) == written);
  CHECK(run_trainer({"data", "configs/quickstart.yaml", "--sheet", sheet, "--pictures", "3"}).exit_code == 0);
  CHECK(bytes_in(sheet) != written);
}

TEST_CASE("trainer data replaces pictures alone") {
  const ScratchFolder folder;
  const std::string file = folder / "notes.txt";
  std::ofstream(file) << "notes";
  const ProcessResult result = run_trainer({"data", "configs/quickstart.yaml", "--sheet", file});
  CHECK(result.exit_code == 6);
  CHECK_THAT(result.err, Contains("notes.txt' exists and is no PNG; name another file with --sheet"));
  CHECK(bytes_in(file) == "notes");
  CHECK(run_trainer({"data", "configs/quickstart.yaml", "--sheet", folder / "none/a.png"}).exit_code == 6);
  CHECK(run_trainer({"data", "configs/quickstart.yaml", "--sheet", file, "--no-sheet"}).exit_code == 2);
  CHECK(run_trainer({"data", "configs/quickstart.yaml", "--samples", "0"}).exit_code == 2);
}

TEST_CASE("trainer data writes the first prepared samples, of training or of validation, as arrays") {
  const ScratchFolder folder;
  const std::string file = folder / "a.npz";
  const auto told = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"data", "configs/quickstart.yaml", "--no-sheet", "--npz", file});
    return run_trainer(words);
  };
  const ProcessResult training = told({"--samples", "20"});
  CHECK(training.exit_code == 0);
  CHECK_THAT(training.out, Contains("20 training samples as the first epoch") && Contains("samples u8 20×8×8×1"));
  const std::string written = bytes_in(file);
  CHECK(written.starts_with("PK\x03\x04"));
  // All there are, in place of what was written.
  const ProcessResult validation = told({"--validation", "--json"});
  CHECK(validation.exit_code == 0);
  CHECK(nlohmann::json::parse(validation.out)["npz"] == file);
  CHECK(bytes_in(file).size() > written.size());
  CHECK_THAT(bytes_in(file), Contains("'shape': (360,8,8,1,)") && Contains("'shape': (360,)"));
  // Nothing is drawn here: another epoch looks the same.
  CHECK_THAT(told({"--samples", "20", "--epoch", "7"}).out, Contains("as epoch 7 prepares"));
  CHECK(bytes_in(file) == written);
  CHECK(told({"--epoch", "0"}).exit_code == 2);
  CHECK(told({"--epoch", "2", "--validation"}).exit_code == 2);
  std::ofstream(file) << "notes";
  const ProcessResult refused = told({});
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.err, Contains("a.npz' exists and is no .npz of prepared samples"));
  CHECK(bytes_in(file) == "notes");
}

TEST_CASE("trainer data shows validation samples where there are any") {
  const ScratchFolder folder;
  const std::string sheet = folder / "a.png", other = folder / "b.png";
  CHECK(run_trainer({"data", "configs/quickstart.yaml", "--sheet", sheet}).exit_code == 0);
  const ProcessResult result = run_trainer({"data", "configs/quickstart.yaml", "--sheet", other, "--validation"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("32 validation samples as each evaluation"));
  CHECK(bytes_in(sheet) != bytes_in(other));
  std::ofstream(folder / "t.csv") << "a,b,y\n1,x,2\n2,z,3\n3,x,5\n4,z,7\n";
  std::ofstream(folder / "t.yaml")
      << "data: {type: csv, train: t.csv, target_type: numeric}\nmodel: {layers: [linear: {out: 1}]}\nloss: mse\n";
  const ProcessResult none = run_trainer({"data", "t.yaml", "--validation"}, {.folder = folder.path()});
  CHECK(none.exit_code == 6);
  CHECK_THAT(none.err, Contains("there are no validation samples"));
}

TEST_CASE("trainer data needs no pictures to tell of a table") {
  const ScratchFolder folder;
  std::ofstream(folder / "t.csv") << "a,b,y\n1,x,2\n2,z,3\n3,x,5\n4,z,7\n";
  std::ofstream(folder / "t.yaml")
      << "data: {type: csv, train: t.csv, target_type: numeric}\nmodel: {layers: [linear: {out: 1}]}\nloss: mse\n";
  const ProcessResult result = run_trainer({"data", "t.yaml", "--json"}, {.folder = folder.path()});
  CHECK(result.exit_code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["sheet"].is_null());
  CHECK(json["targets"][0]["mean"] == 4.25);
  CHECK(json["shape"] == std::vector<int>{3});
  const ProcessResult asked = run_trainer({"data", "t.yaml", "--sheet", "a.png"}, {.folder = folder.path()});
  CHECK(asked.exit_code == 6);
  CHECK_THAT(asked.err, Contains("are no pictures"));
  // Without a name the sheet is called as the configuration.
  const ProcessResult named = run_trainer(
      {"data", "t.yaml", "data={type: digits}", "loss=cross_entropy", "model.layers=[flatten, linear: {out: 10}]"},
      {.folder = folder.path()});
  CHECK(named.exit_code == 0);
  CHECK(std::filesystem::exists(folder / "t-data.png"));
}
