#include "engine/report/page/recorded_ending.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/errors.h"
#include "tests/temporary_folder.h"

namespace trainer {
namespace {

Json told_failure() {
  return Json::parse(R"json({"event":"oom","step":3,"phase":"forward","layer":"0 (linear)","buffer":"0.output",
      "requested":512,"allocated":1024,"reserved":2048,"capacity":4096,
      "top":[{"name":"0.weight","layer":"0 (linear)","category":"parameter","bytes":1024}],
      "fixes":[{"set":["train.batch_size=2","name=it's"],"what":"a smaller batch","peak_reserved":2048,"fits":true,
                "numbers":"other","relative_step_time":1.5}]})json");
}

}  // namespace

TEST_CASE("The end that a run told is passed on with what plans each of its fixes") {
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary / "a folder";
  std::filesystem::create_directories(folder);
  RunRecord run;
  run.folder = folder.string();
  run.capacity = 4096;
  CHECK(recorded_ending(run) == Json::parse(R"({"end":null,"oom":null,"diverged":null,"adaptations":[]})"));
  run.out_of_memory = told_failure();
  run.end = Json::parse(R"({"event":"end","status":"oom","seconds":2.5,"loss":null})");
  run.diverged = Json::parse(R"({"event":"diverged","step":4,"loss":null,"layer":"","tensor":"0.output"})");
  run.adaptations = {Json::parse(R"({"event":"adapt","step":1,"set":["train.batch_size=4"],"what":"smaller"})")};
  const Json ending = recorded_ending(run);
  CHECK(ending.at("end").at("seconds") == 2.5);
  CHECK(ending.at("end").at("loss").is_null());
  CHECK(ending.at("diverged").at("tensor") == "0.output");
  CHECK(ending.at("adaptations").at(0).at("set") == Json::parse(R"(["train.batch_size=4"])"));
  CHECK(ending.at("oom").at("top").at(0).at("bytes") == 1024);
  const auto command = [&] { return recorded_ending(run).at("oom").at("fixes").at(0).at("command"); };
  CHECK(command() == "");  // a run that does not fit has left no configuration
  std::ofstream(folder / "config.yaml") << "name: x\n";
  const std::string config = (folder / "config.yaml").string();
  CHECK(command() == "trainer plan '" + config + "' train.batch_size=2 'name=it'\\''s' --capacity 4096");
  run.device_kind = "cuda";
  run.device_name = "NVIDIA GeForce RTX 3060";
  CHECK(command() ==
        "trainer plan '" + config + "' train.batch_size=2 'name=it'\\''s' --gpu rtx3060-12gb --capacity 4096");
}

TEST_CASE("A value of a run's end that is not what it must be is refused with its file") {
  RunRecord run;
  run.path = "events.jsonl";
  for (const auto& [key, value] : {std::pair<const char*, Json>{"step", "three"},
                                   {"step", -1},
                                   {"layer", 7},
                                   {"capacity", 1.5},
                                   {"top", "all"},
                                   {"top", Json::parse(R"([{"name":"a"}])")},
                                   {"fixes", Json::parse(R"([{"set":"a=1"}])")}}) {
    CAPTURE(key, value.dump());
    run.out_of_memory = told_failure();
    (*run.out_of_memory)[key] = value;
    CHECK_THROWS_AS(recorded_ending(run), DataError);
  }
}

}  // namespace trainer
