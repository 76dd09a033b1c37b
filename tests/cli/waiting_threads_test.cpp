// Note [Waiting threads] in cli/bounded_spin.h. OpenMP's library itself tells what it has read, when it is loaded.

#include <fstream>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// What OpenMP's library says last: that of the process that computes.
std::string told_spin_count(const std::vector<std::string>& arguments,
                            std::vector<std::pair<std::string, std::string>> environment) {
  environment.emplace_back("OMP_DISPLAY_ENV", "verbose");
  const ProcessResult result =
      run_trainer(arguments, {.environment = std::move(environment), .without = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const std::size_t found = result.err.rfind("GOMP_SPINCOUNT = '");
  REQUIRE(found != std::string::npos);
  const std::size_t begin = result.err.find('\'', found) + 1;
  return result.err.substr(begin, result.err.find('\'', begin) - begin);
}

std::string told_by_doctor(std::vector<std::pair<std::string, std::string>> environment) {
  const ProcessResult result = run_trainer(
      {"doctor", "--json"}, {.environment = std::move(environment), .without = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}});
  return nlohmann::json::parse(result.out)["devices"][0]["waiting_threads"];
}

}  // namespace

TEST_CASE("Threads of every command that computes spin briefly, whatever starts it") {
  const ScratchFolder folder;
  const std::string output = "output=" + folder / "run";
  CHECK(told_spin_count({"run", "configs/quickstart.yaml", "train.steps=1", output}, {}) == "1000");
  CHECK(told_spin_count({"plan", "configs/quickstart.yaml", "--verify"}, {}) == "1000");
  CHECK(told_spin_count({"bench", "configs/quickstart.yaml", "--steps", "1"}, {}) == "1000");
  CHECK_THAT(told_by_doctor({}), Contains("briefly"));
}

TEST_CASE("The user's own settings of waiting threads stay") {
  CHECK(told_spin_count({"doctor"}, {{"GOMP_SPINCOUNT", "77"}}) == "77");
  CHECK_THAT(told_by_doctor({{"GOMP_SPINCOUNT", "77"}}), Contains("GOMP_SPINCOUNT"));
  CHECK(told_spin_count({"doctor"}, {{"OMP_WAIT_POLICY", "passive"}}) == "0");
  CHECK(told_spin_count({"doctor"}, {{"OMP_WAIT_POLICY", "active"}}) != "1000");
  CHECK_THAT(told_by_doctor({{"OMP_WAIT_POLICY", "active"}}), Contains("OMP_WAIT_POLICY"));
}

TEST_CASE("A process that replaced itself keeps its words, its terminal and its name") {
  const ScratchFolder folder;
  const ProcessResult result = run_trainer(
      {"run", "configs/quickstart.yaml", "train.steps=2", "name=two words", "output=" + folder / "a run", "--json"},
      {.without = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}});
  REQUIRE(result.exit_code == 0);
  CHECK(events_of(result.out).front()["config"]["name"] == "two words");
  std::string name;
  const ProcessResult slow =
      run_trainer({"run", "configs/quickstart.yaml", "output=" + folder / "named", "--log-every", "1"},
                  {.without = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}, .on_output = [&](pid_t id, const std::string&) {
                     if (!name.empty()) return;
                     std::ifstream file("/proc/" + std::to_string(id) + "/comm");
                     std::getline(file, name);
                   }});
  CHECK(slow.exit_code == 0);
  CHECK(name == "trainer");
}
