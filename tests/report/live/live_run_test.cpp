#include "engine/report/live/live_run.h"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "tests/report/live/recorded_folder.h"

namespace trainer {

TEST_CASE("a live run has the last of each kind, and sums of what came before") {
  const FolderOfRuns folder;
  folder.tell("a", live_start());
  for (int step = 1; step <= 20; ++step) folder.tell("a", live_step(step, 1.0 / step));
  folder.tell("a", live_evaluation(10, 0.5, true));
  folder.tell("a", live_evaluation(20, 0.75, false));
  folder.tell("a", WarningEvent{.step = 3, .message = "hot"});
  folder.tell("a", WarningEvent{.step = 4, .message = "hotter"});
  folder.tell("a", CheckpointEvent{.step = 20, .path = "x"});
  LiveRun run(folder.of("a"));
  CHECK_FALSE(run.has_begun());
  run.update();
  REQUIRE(run.has_begun());
  CHECK(run.last_step()->step == 20);
  CHECK(run.last_evaluation()->step == 20);
  CHECK(run.best_evaluation()->step == 10);
  CHECK(run.num_warnings() == 2);
  CHECK(run.last_warning()->message == "hotter");
  CHECK(run.last_checkpoint() == 20);
  CHECK(run.samples_per_second() == 8);
  CHECK(run.waiting_share() == 0.25);
  // 20 steps of half a second and two evaluations of one, for a fifth of the run.
  CHECK(run.remaining_seconds() == Approx(12.0 / 20 * 80));
  CHECK(run.highest_reserved() == 6 << 20);
  CHECK(run.highest_allocated() == 4 << 20);
  REQUIRE(run.by_category());
  CHECK((*run.by_category())[static_cast<std::size_t>(Category::activation)] == 3 << 20);
  CHECK_FALSE(run.is_measured());
  CHECK(run.begin_seconds() == 1000);
  CHECK(run.record().steps.empty());
}

TEST_CASE("a live run takes what is told later, of each event once") {
  const FolderOfRuns folder;
  folder.tell("a", live_start());
  LiveRun run(folder.of("a"));
  run.update();
  CHECK_FALSE(run.last_step());
  CHECK(run.remaining_seconds() < 0);
  for (int step = 1; step <= 5; ++step) {
    folder.tell("a", live_step(step));
    folder.tell("a", WarningEvent{.step = step, .message = "w"});
    run.update();
    run.update();
    CHECK(run.last_step()->step == step);
    CHECK(run.num_warnings() == step);
    CHECK(run.losses().points(100).size() == static_cast<std::size_t>(step));
  }
}

TEST_CASE("a live run that is read in pieces comes to the same") {
  const FolderOfRuns folder;
  StageEvent stage;
  stage.name = "head";
  stage.capacity = 99;
  stage.planned_by_category = CategoryBytes{7};
  AdaptEvent adapt;
  adapt.change.capacity = 77;
  folder.tell("a", live_start(1000));
  for (int step = 1; step <= 100; ++step) {
    StepEvent slow = live_step(step, step);
    slow.seconds = 60;
    folder.tell("a", slow);
  }
  folder.tell("a", stage);
  folder.tell("a", adapt);
  folder.tell("a", live_start(400));
  for (int step = 101; step <= 300; ++step) folder.tell("a", live_step(step, step));
  LiveRun whole(folder.of("a")), pieces(folder.of("a"));
  whole.update();
  CHECK(whole.part_read() == 1);
  int calls = 0;
  do {
    pieces.update(1000);
    ++calls;
  } while (pieces.has_more());
  CHECK(calls > 50);
  // Of the last start alone: neither its pace nor its memory is that of the one before.
  for (const LiveRun* run : {&whole, &pieces}) {
    CHECK(run->last_step()->step == 300);
    CHECK(run->remaining_seconds() == Approx(50));
    CHECK(run->samples_per_second() == 8);
    CHECK(run->capacity() == 8 << 20);
    REQUIRE(run->by_category());
    CHECK((*run->by_category())[static_cast<std::size_t>(Category::activation)] == 3 << 20);
    CHECK(run->num_adaptations() == 1);
    CHECK(run->losses().points(1024).front().step == 1);
  }
  CHECK(pieces.losses().points(1024).size() == whole.losses().points(1024).size());
}

TEST_CASE("the end event's categories are what was measured, and a stage's plan takes the place of the start's") {
  const FolderOfRuns folder;
  folder.tell("a", live_start());
  StageEvent stage;
  stage.name = "head";
  stage.capacity = 5000;
  stage.planned_by_category = CategoryBytes{7};
  folder.tell("a", stage);
  StepEvent step = live_step(1);
  step.stage = "head";
  folder.tell("a", step);
  LiveRun run(folder.of("a"));
  run.update();
  CHECK(run.capacity() == 5000);
  CHECK(run.stage() == "head");
  CHECK(run.by_category()->front() == 7);
  EndEvent end;
  end.status = "done";
  end.peak_by_category = {9};
  folder.tell("a", end);
  run.update();
  CHECK(run.is_measured());
  CHECK(run.by_category()->front() == 9);
}

TEST_CASE("the plan of an adapted run is not told as the one it goes on with") {
  const FolderOfRuns folder;
  folder.tell("a", live_start());
  AdaptEvent adapt;
  adapt.change.capacity = 77;
  folder.tell("a", adapt);
  LiveRun run(folder.of("a"));
  run.update();
  CHECK_FALSE(run.by_category());
  CHECK(run.capacity() == 77);
  CHECK(run.num_adaptations() == 1);
}

TEST_CASE("where memory ran out, who held it then is told, whatever the end event says of what ran") {
  const FolderOfRuns folder;
  folder.tell("a", live_start());
  OutOfMemoryEvent oom;
  oom.context.live.by_category = {5};
  folder.tell("a", oom);
  EndEvent end;
  end.status = "oom";
  folder.tell("a", end);
  LiveRun run(folder.of("a"));
  run.update();
  CHECK(run.damage().empty());
  REQUIRE(run.by_category());
  CHECK(run.by_category()->front() == 5);
}

TEST_CASE("damage is told, what was read before it stays, and another file ends it") {
  const FolderOfRuns folder;
  folder.tell("a", live_start());
  folder.tell("a", live_step(1));
  folder.tell("a", std::string("{\"event\":\"step\",\"step\":\"many\"}\n"));
  LiveRun run(folder.of("a"));
  run.update();
  CHECK_THAT(run.damage(), Catch::Contains("events.jsonl: line 3"));
  CHECK(run.last_step()->step == 1);
  folder.tell("a", live_step(2));
  run.update();
  CHECK(run.last_step()->step == 1);
  std::filesystem::remove(folder.of("a") + "/events.jsonl");
  folder.tell("a", live_start());
  run.update();
  CHECK(run.damage().empty());
  CHECK(run.has_begun());
  CHECK_FALSE(run.last_step());
}

TEST_CASE("a field that only the live view reads is damage, too, where it is wrong") {
  for (const std::string bad :
       {R"("pid":-1)", R"("time":"now")", R"("host":7)", R"("planned_by_category":[])",
        R"("planned_by_category":{"parameter":1e30})", R"("planned_by_category":{"parameter":9223372036854775807})"}) {
    const FolderOfRuns folder;
    folder.tell("a", R"({"event":"start","schema":1,"config":{},"device":{"kind":"cpu","name":"x","capacity":9},)"
                     R"("parameters":1,"total_steps":9,"steps_per_epoch":3,"batch_size":4,)" +
                         bad + "}\n");
    LiveRun run(folder.of("a"));
    run.update();
    INFO(bad);
    CHECK_FALSE(run.damage().empty());
  }
}

TEST_CASE("a run of a trainer that told less is shown without what it did not tell") {
  const FolderOfRuns folder;
  folder.tell("a", std::string(R"({"event":"start","schema":1,"config":null,"device":{"kind":"cpu","name":"x",)"
                               R"("capacity":9},"parameters":1,"total_steps":9,"steps_per_epoch":3,"batch_size":4})"
                               "\n"));
  LiveRun run(folder.of("a"));
  run.update();
  CHECK(run.damage().empty());
  CHECK_FALSE(run.by_category());
  CHECK(run.pid() == 0);
  CHECK(run.begin_seconds() == run.written_seconds());
}

TEST_CASE("a pipe in the place of events keeps nobody waiting") {
  const FolderOfRuns folder;
  std::filesystem::create_directories(folder.of("a"));
  REQUIRE(mkfifo((folder.of("a") + "/events.jsonl").c_str(), 0600) == 0);
  LiveRun run(folder.of("a"));
  run.update();
  CHECK_THAT(run.damage(), Catch::Contains("is no file"));
}

TEST_CASE("the highest values of many steps are kept in bounded stretches") {
  HighestValues values;
  for (int step = 1; step <= 100000; ++step) values.add(step, step == 70000 ? 5 : 1);
  const std::vector<double> columns = values.columns(10);
  REQUIRE(columns.size() == 10);
  CHECK(std::count(columns.begin(), columns.end(), 5.0) == 1);
  CHECK(columns[6] == 5);
  CHECK(values.first_step() == 1);
  CHECK(values.last_step() == 100000);
  CHECK(std::isnan(HighestValues().columns(3)[0]));
}

}  // namespace trainer
