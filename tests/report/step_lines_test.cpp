#include <unistd.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/report/run/event_json.h"
#include "engine/report/run/json_lines_sink.h"

using namespace trainer;
using nlohmann::ordered_json;

namespace {

StepEvent sample_step() {
  StepEvent step;
  step.step = 123'456;
  step.epoch = 17;
  step.loss = 0.6931471805599453;
  step.learning_rate = 3e-4;
  step.samples = 256;
  step.seconds = 0.000123456789;
  step.data_seconds = 0.0000123;
  step.memory = {{110'592, 224'768, 2'097'152, 100, 512, 2'097'152}, 500'000'000, 150'000'000'000, 2};
  return step;
}

/// What a line stands for, built without the writer of lines.
ordered_json object_of(const StepEvent& event) {
  const double rate = event.seconds > 0 ? static_cast<double>(event.samples) / event.seconds : 0.0;
  const StepMemory& memory = event.memory.step;
  ordered_json object = {{"event", "step"},
                         {"step", event.step},
                         {"epoch", event.epoch},
                         {"stage", event.stage},
                         {"loss", event.loss},
                         {"lr", event.learning_rate},
                         {"samples", event.samples},
                         {"samples_per_second", rate},
                         {"step_seconds", event.seconds},
                         {"data_seconds", event.data_seconds},
                         {"memory",
                          {{"requested", memory.requested},
                           {"peak_requested", memory.peak_requested},
                           {"allocated", memory.allocated},
                           {"peak_allocated", memory.peak_allocated},
                           {"reserved", memory.reserved},
                           {"peak_reserved", memory.peak_reserved},
                           {"device_used", event.memory.device_used},
                           {"device_total", event.memory.device_total},
                           {"alloc_retries", event.memory.num_alloc_retries}}}};
  if (event.loss_scale) {
    object["loss_scale"] = *event.loss_scale;
    object["skipped"] = event.skipped;
  }
  return object;
}

std::string dump(const ordered_json& object) {
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::int64_t num_lines(const std::string& path) {
  std::ifstream file(path);
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

/// A file that goes with the test.
class TemporaryFile {
 public:
  ~TemporaryFile() {
    std::fclose(stream);
    std::filesystem::remove(path);
  }
  std::string path = std::filesystem::temp_directory_path() / ("step_lines." + std::to_string(getpid()));
  std::FILE* stream = std::fopen(path.c_str(), "wb");
};

/// Microseconds a call: the least of some rounds, so that what else the machine does is left out.
double microseconds_of(const std::function<void()>& call) {
  constexpr int num_rounds = 20, num_calls = 2000;
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < num_rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < num_calls; ++i) call();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
    least = std::min(least, taken.count() / num_calls);
  }
  return least;
}

}  // namespace

TEST_CASE("a step's line is the object that nlohmann would write, key by key and value by value") {
  std::vector<StepEvent> events(1, sample_step());
  for (const double number :
       {0.0, -0.0, 1.0, 256.0, 1e15, 1e16, 123456789012345678.0, 1e22, 1e-5, 1e-300, 5e-324, 0.1, 1.0 / 3, -2.5,
        std::numeric_limits<double>::max(), std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN(), static_cast<double>(1e-3F)}) {
    StepEvent event = sample_step();
    event.loss = number;
    event.learning_rate = -number;
    event.seconds = number;
    event.loss_scale = number;
    event.skipped = number > 1;
    events.push_back(event);
  }
  events.emplace_back();
  events.back().samples = std::numeric_limits<std::int64_t>::max();
  events.back().memory.device_total = std::numeric_limits<std::int64_t>::min();
  for (const std::string_view stage : {"a b_1", "\"quoted\"\n", "Größe", "\xff", ""}) {
    events.push_back(sample_step());
    events.back().stage = stage;
  }
  for (const StepEvent& event : events) {
    const std::string line = event_json(event);
    INFO(line);
    CHECK(line.find('\n') == std::string::npos);
    const ordered_json expected = ordered_json::parse(dump(object_of(event))), parsed = ordered_json::parse(line);
    CHECK(parsed == expected);
    // Equal also in the order of the keys and in what is an integer.
    CHECK(parsed.dump() == expected.dump());
  }
}

TEST_CASE("a line is added behind what is there, in memory that is used again") {
  std::string text = "before ";
  append_event_json(sample_step(), text);
  CHECK(text == "before " + event_json(sample_step()));
  text.clear();
  const char* const place = text.data();
  append_event_json(sample_step(), text);
  CHECK(text.data() == place);
}

TEST_CASE("lines of steps that follow each other are seen together, and with every other event at once") {
  const TemporaryFile file;
  JsonLinesSink sink(file.stream);
  sink.take(StartEvent{});
  CHECK(num_lines(file.path) == 1);
  for (int step = 0; step < 5; ++step) sink.take(sample_step());
  CHECK(num_lines(file.path) == 1);
  sink.take(EvalEvent{});
  CHECK(num_lines(file.path) == 7);
  sink.take(sample_step());
  CHECK(num_lines(file.path) == 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  sink.take(sample_step());
  CHECK(num_lines(file.path) == 9);
  sink.take(sample_step());
  sink.take(EndEvent{});
  CHECK(num_lines(file.path) == 11);
}

TEST_CASE("a step's line takes less than a third of the time of a tree of objects") {
  const StepEvent event = sample_step();
  std::string line;
  const double of_object = microseconds_of([&] { line = dump(object_of(event)); });
  const double of_line = microseconds_of([&] {
    line.clear();
    append_event_json(event, line);
  });
  CHECK(of_line < of_object / 3);
}

TEST_CASE("Benchmark: microseconds that each sink takes of a step", "[.benchmark]") {
  const StepEvent event = sample_step();
  std::string line;
  std::FILE* const nowhere = std::fopen("/dev/null", "w");
  JsonLinesSink lines(nowhere);
  const std::string folder = std::filesystem::temp_directory_path() / ("step_lines_bench." + std::to_string(getpid()));
  EventFileSink file(folder);
  file.take(StartEvent{});
  const auto former = [&] {
    line = dump(object_of(event));
    std::fwrite(line.data(), 1, line.size(), nowhere);
    std::fputc('\n', nowhere);
    std::fflush(nowhere);
  };
  std::printf("a tree of objects, each line flushed %6.3f us\n", microseconds_of(former));
  std::printf("JsonLinesSink                        %6.3f us\n", microseconds_of([&] { lines.take(event); }));
  std::printf("EventFileSink                        %6.3f us\n", microseconds_of([&] { file.take(event); }));
  file.take(EndEvent{});
  std::fclose(nowhere);
  std::filesystem::remove_all(folder);
}
