#include "engine/report/record/run_record.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/errors.h"
#include "engine/report/run/event_json.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

/// With events, gone with the test.
class RecordFolder : public TemporaryFolder {
 public:
  std::string events() const { return *this / "events.jsonl"; }
  void write(const std::string& text, std::ios::openmode mode = std::ios::app) const {
    std::ofstream(events(), mode | std::ios::binary) << text;
  }
};

std::string recorded_start(const std::string& more = "") {
  return R"({"event":"start","schema":1,"config":{"name":"digits <b>&\"'"},"device":{"kind":"cpu","name":"AMD",)"
         R"("capacity":1000},"parameters":10,"version":"1","total_steps":9,"steps_per_epoch":3,"batch_size":4)" +
         more + "}\n";
}

StepEvent recorded_step(std::int64_t number, double loss = 0.5) {
  StepEvent event;
  event.step = number;
  event.epoch = 1;
  event.loss = loss;
  event.learning_rate = 0.01;
  event.samples = 4;
  event.seconds = 0.25;
  event.memory.step = {1, 2, 3, 4, 5, 6};
  event.memory.device_used = 7;
  event.memory.device_total = 8;
  event.memory.num_alloc_retries = 9;
  return event;
}

std::string line_of(const Event& event) { return event_json(event) + '\n'; }

}  // namespace

TEST_CASE("A run's record has what its events told") {
  const RecordFolder folder;
  folder.write(recorded_start() + line_of(recorded_step(1)) + line_of(recorded_step(2, std::nan(""))));
  EvalEvent evaluation;
  evaluation.step = 2;
  evaluation.epoch = 1;
  evaluation.loss = 0.25;
  evaluation.accuracy = 0.75;
  evaluation.samples = 6;
  evaluation.best = true;
  folder.write(line_of(evaluation) + line_of(WarningEvent{.step = 2, .message = "hot"}) +
               line_of(CheckpointEvent{.step = 2, .path = "x"}));
  const RunRecord record = read_run(folder.path());
  CHECK(record.name == "digits <b>&\"'");
  CHECK(record.planned_peak_reserved == 0);  // of one that an older trainer wrote
  CHECK(record.first_steps == std::vector<std::int64_t>{1});
  CHECK(record.total_steps == 9);
  CHECK(record.capacity == 1000);
  CHECK(record.status() == "unfinished");
  REQUIRE(record.steps.size() == 2);
  CHECK(record.steps[0].loss == 0.5);
  CHECK(record.steps[0].learning_rate == 0.01);
  CHECK(record.steps[0].samples_per_second == 16);
  CHECK(record.steps[0].memory.peak_requested == 1);
  CHECK(record.steps[0].memory.peak_allocated == 2);
  CHECK(record.steps[0].memory.peak_reserved == 3);
  CHECK(record.steps[0].memory.requested == 4);
  CHECK(record.steps[0].memory.allocated == 5);
  CHECK(record.steps[0].memory.reserved == 6);
  CHECK(record.steps[0].memory.device_used == 7);
  CHECK(record.steps[0].memory.alloc_retries == 9);
  CHECK(std::isnan(record.steps[1].loss));
  REQUIRE(record.evaluations.size() == 1);
  CHECK(record.evaluations[0].metrics == std::vector<std::pair<std::string, double>>{{"accuracy", 0.75}});
  CHECK(record.evaluations[0].best);
  CHECK(record.warnings.at(0).message == "hot");
  CHECK(record.checkpoints == std::vector<std::int64_t>{2});
}

TEST_CASE("A reader takes lines as they are finished, and begins anew with another run's file") {
  const RecordFolder folder;
  folder.write(recorded_start());
  RunReader reader(folder.events());
  CHECK(reader.read());
  CHECK_FALSE(reader.read());
  const std::string line = line_of(recorded_step(1));
  folder.write(line.substr(0, 40));
  CHECK_FALSE(reader.read());
  CHECK(reader.record().steps.empty());
  folder.write(line.substr(40));
  CHECK(reader.read());
  CHECK(reader.record().steps.size() == 1);
  fs::rename(folder.events(), folder.events() + ".old");
  folder.write(recorded_start(R"(,"trained_parameters":3)"));
  CHECK(reader.read());
  CHECK(reader.record().steps.empty());
  CHECK(reader.record().num_starts == 1);
  CHECK(reader.num_beginnings() == 1);
}

TEST_CASE("A resumed run has begun twice, and its end is that of the last time") {
  const RecordFolder folder;
  EndEvent end;
  end.status = "interrupted";
  end.steps = 1;
  folder.write(recorded_start() + line_of(recorded_step(1)) + line_of(end));
  CHECK(read_run(folder.path()).status() == "interrupted");
  folder.write(recorded_start(R"(,"first_step":2,"planned_peak_reserved":4096)") + line_of(recorded_step(2)));
  const RunRecord record = read_run(folder.path());
  CHECK(record.first_steps == std::vector<std::int64_t>{1, 2});
  CHECK(record.planned_peak_reserved == 4096);
  CHECK(record.status() == "unfinished");
  CHECK(record.num_starts == 2);
  CHECK(record.steps.size() == 2);
}

TEST_CASE("A reader takes what belongs to one start at a time, and adaptations are those of the last") {
  const RecordFolder folder;
  const std::string adapted = R"({"event":"adapt","step":1})";
  folder.write(recorded_start() + adapted + "\n" + line_of(recorded_step(1)) + recorded_start() +
               line_of(recorded_step(2)));
  RunReader reader(folder.path());
  CHECK(reader.read());
  CHECK(reader.has_more());
  CHECK(reader.record().num_starts == 1);
  CHECK(reader.record().steps.size() == 1);
  CHECK(reader.record().adaptations.size() == 1);
  CHECK(reader.read());
  CHECK_FALSE(reader.has_more());
  CHECK(reader.record().num_starts == 2);
  CHECK(reader.record().steps.size() == 2);
  CHECK(reader.record().adaptations.empty());
  CHECK_FALSE(reader.read());
  CHECK(read_run(folder.path()).steps.size() == 2);
}

TEST_CASE("Events that this trainer does not know are passed over") {
  const RecordFolder folder;
  folder.write(recorded_start(R"(,"new":{"a":[1]})") + "{\"event\":\"later\",\"x\":1}\n\n" + line_of(recorded_step(1)));
  CHECK(read_run(folder.path()).steps.size() == 1);
}

TEST_CASE("What is no event is refused with its line") {
  const RecordFolder folder;
  const auto refusal = [&](const std::string& line) {
    folder.write(recorded_start() + line + "\n", std::ios::trunc);
    return refusal_of<DataError>([&] { read_run(folder.path()); });
  };
  CHECK_THAT(refusal("x"), Catch::Contains("line 2") && Catch::Contains("not a JSON object") &&
                               Catch::Contains("head -n 1 " + folder.events()));
  CHECK_THAT(refusal(R"({"event":"step","step":"1"})"),
             Catch::Contains("'step' is \"1\"") && Catch::Contains("integer"));
  CHECK_THAT(refusal(R"({"event":"step","step":0})"), Catch::Contains("an integer from 1 to"));
  CHECK_THAT(refusal(R"({"step":1})"), Catch::Contains("'event' is missing"));
  CHECK_THAT(refusal(R"({"event":"start","schema":2})"), Catch::Contains("version 2"));
  CHECK_THAT(refusal(line_of(recorded_step(3)) + line_of(recorded_step(2))),
             Catch::Contains("step 2 stands behind step 3"));
  std::string huge = line_of(recorded_step(1));
  huge.replace(huge.find("\"peak_reserved\":3"), 17, "\"peak_reserved\":9223372036854775807");
  CHECK_THAT(refusal(huge), Catch::Contains("'memory.peak_reserved' is 9223372036854775807"));
  std::string long_step = line_of(recorded_step(1));
  long_step.replace(long_step.find("\"step_seconds\":0.25"), 19, "\"step_seconds\":1e308");
  CHECK_THAT(refusal(long_step), Catch::Contains("'step_seconds' is 1e+308"));
  CHECK_THAT(refusal(R"({"event":"end","status":5})"), Catch::Contains("line 2") && Catch::Contains("'status' is 5"));
  std::string stages;
  for (int i = 0; i <= 10'000; ++i) stages += R"({"event":"stage","stage":"s)" + std::to_string(i) + "\"}\n";
  CHECK_THAT(refusal(stages), Catch::Contains("more than 10000 stages"));
  CHECK_THAT(refusal(std::string(17 << 20, 'x')), Catch::Contains("longer than an event"));
}

TEST_CASE("A path without a run says what is missing") {
  const RecordFolder folder;
  CHECK_THAT(refusal_of<DataError>([&] { read_run(folder.path() + "/none"); }), Catch::Contains("is not there"));
  CHECK_THAT(refusal_of<DataError>([&] { read_run(folder.path()); }),
             Catch::Contains("holds no run") && !Catch::Contains("such as"));
  fs::create_directories(folder / "lr=0.1");
  std::ofstream(folder / "lr=0.1/events.jsonl") << "";
  CHECK_THAT(refusal_of<DataError>([&] { read_run(folder.path()); }),
             Catch::Contains("such as '" + (folder / "lr=0.1'")));
  folder.write("");
  CHECK_THAT(refusal_of<DataError>([&] { read_run(folder.path()); }), Catch::Contains("no run has begun"));
}

TEST_CASE("A reader takes a file in pieces of so many bytes, and forgets what was taken of it") {
  const RecordFolder folder;
  folder.write(recorded_start() + line_of(recorded_step(1)) + line_of(recorded_step(2)) +
               line_of(WarningEvent{.step = 2, .message = "hot"}));
  RunReader reader(folder.events());
  std::size_t num_steps = 0, num_warnings = 0;
  int num_calls = 0;
  do {
    reader.read(100);
    num_steps += reader.record().steps.size();
    num_warnings += reader.record().warnings.size();
    reader.forget();
    ++num_calls;
  } while (reader.has_more());
  CHECK(num_calls == (reader.file_bytes() + 99) / 100);
  CHECK(reader.taken_bytes() == reader.file_bytes());
  CHECK(num_steps == 2);
  CHECK(num_warnings == 1);
  CHECK(reader.record().num_starts == 1);
  folder.write(line_of(recorded_step(2)));
  CHECK_THAT(refusal_of<DataError>([&] { reader.read(); }), Catch::Contains("step 2 stands behind step 2"));
}

}  // namespace trainer
