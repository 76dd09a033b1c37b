#include "engine/report/run/repeated_events.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace trainer;

TEST_CASE("what a run that goes on tells again goes from its events: stages, steps and evaluations behind its step") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("trainer-events-" + std::to_string(getpid()) + ".jsonl")).string();
  std::ofstream(path) << R"({"event":"start"}
{"event":"stage","stage":"a","first_step":1}
{"event":"step","step":1,"stage":"a"}
{"event":"step","step":2,"stage":"a"}
{"event":"eval","step":2}
{"event":"stage","stage":"b","first_step":3}
{"event":"step","step":3,"stage":"b"}
{"event":"step","st)";
  remove_repeated_events(path, Resumption{.step = 2, .evaluated = true, .trains = true});
  std::ifstream file(path);
  const std::string left{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  CHECK(left == R"({"event":"start"}
{"event":"stage","stage":"a","first_step":1}
{"event":"step","step":1,"stage":"a"}
{"event":"step","step":2,"stage":"a"}
{"event":"eval","step":2}
)");
}
