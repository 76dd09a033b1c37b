#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

using namespace trainer;
using nlohmann::json;

// Note [Run files]
// ~~~~~~~~~~~~~~~~
// A whole run is data: tests/runs/NAME.yaml is an experiment, NAME.expect.json what comes of it. Its `runs` are made
// one after the other in one output folder, each `trainer COMMAND NAME.yaml output=… ARGUMENTS --json`:
//
//   command     "run" unless given
//   arguments   more words
//   exit_code   of the process
//   stderr      texts that stderr must hold
//   counts      how many events there are of a name
//   events      parts of events, in this order among others: {"between": [a, b]} and {"at_least": n} (of a list's
//               length) stand for values that are not exact
//   adds_up     by_category and by_layer of every oom event sum to allocated
//   files       that the output folder must hold afterwards
//   json        false where the command knows no --json

namespace {

json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}

bool matches(const json& expected, const json& actual) {
  if (expected.is_object()) {
    if (expected.size() == 1 && expected.contains("between"))
      return actual.is_number() && expected["between"][0] <= actual && actual <= expected["between"][1];
    if (expected.size() == 1 && expected.contains("at_least"))
      return actual.is_array() && actual.size() >= expected["at_least"].get<std::size_t>();
    return actual.is_object() && std::all_of(expected.items().begin(), expected.items().end(), [&](const auto& item) {
             return actual.contains(item.key()) && matches(item.value(), actual[item.key()]);
           });
  }
  return expected == actual;
}

void check_events(const json& expected, const std::vector<json>& events) {
  auto next = events.begin();
  for (const json& part : expected) {
    INFO("expected event: " << part.dump());
    next = std::find_if(next, events.end(), [&](const json& event) { return matches(part, event); });
    REQUIRE(next != events.end());
    ++next;
  }
}

void check_sums(const json& event) {
  std::int64_t by_category = 0;
  std::int64_t by_layer = 0;
  for (const auto& [name, num_bytes] : event["by_category"].items()) by_category += num_bytes.get<std::int64_t>();
  for (const json& layer : event["by_layer"]) by_layer += layer["bytes"].get<std::int64_t>();
  CHECK(by_category == event["allocated"].get<std::int64_t>());
  CHECK(by_layer == event["allocated"].get<std::int64_t>());
  CHECK(event["free"].get<std::int64_t>() ==
        event["capacity"].get<std::int64_t>() - event["reserved"].get<std::int64_t>());
  CHECK(event["top"].size() <= 10);
}

void check_run(const json& run, const std::string& config, const std::string& output) {
  std::vector<std::string> words = {run.value("command", "run"), config, "output=" + output};
  const json arguments = run.value("arguments", json::array());
  for (const json& word : arguments) words.push_back(word);
  if (run.value("json", true)) words.emplace_back("--json");
  const ProcessResult result = run_trainer(words);
  INFO(run.dump() << "\nstdout:\n" << result.out.substr(0, 4000) << "\nstderr:\n" << result.err);
  CHECK(result.exit_code == run.at("exit_code").get<int>());
  const json texts = run.value("stderr", json::array());
  for (const json& text : texts) CHECK_THAT(result.err, Catch::Contains(text.get<std::string>()));
  const std::vector<json> events = run.value("json", true) ? events_of(result.out) : std::vector<json>{};
  const json counts = run.value("counts", json::object());
  for (const auto& [name, count] : counts.items()) {
    INFO("events named " << name);
    CHECK(events_named(events, name).size() == count.get<std::size_t>());
  }
  check_events(run.value("events", json::array()), events);
  if (run.value("adds_up", false))
    for (const json& event : events_named(events, "oom")) check_sums(event);
  const json files = run.value("files", json::array());
  for (const json& file : files)
    CHECK(std::filesystem::exists(std::filesystem::path(output) / file.get<std::string>()));
}

}  // namespace

TEST_CASE("every run file comes out as expected") {
  std::vector<std::filesystem::path> configs;
  for (const auto& entry : std::filesystem::directory_iterator(TRAINER_SOURCE_DIR "/tests/runs"))
    if (entry.path().extension() == ".yaml") configs.push_back(entry.path());
  std::sort(configs.begin(), configs.end());
  REQUIRE(configs.size() >= 12);
  for (const std::filesystem::path& config : configs) {
    DYNAMIC_SECTION(config.stem().string()) {
      ScratchFolder folder;
      const json expected = read_json(std::filesystem::path(config).replace_extension(".expect.json"));
      REQUIRE(!expected.at("runs").empty());
      for (const json& run : expected["runs"])
        check_run(run, "tests/runs/" + config.filename().string(), folder / "run");
    }
  }
}
