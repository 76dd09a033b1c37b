#include "tests/train/wrapped_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

TEST_CASE("What a device had to do in another way is a warning, once, and stands in the end event") {
  const OutputFolder folder;
  TestRun run(small_experiment, folder.path("run"));
  WrappedDevice device(make_cpu_device(1));
  device.told_notes = {"the first", "the second"};
  run.num_warnings = 2;
  REQUIRE(run(device) == RunStatus::done);
  REQUIRE(run.events.warnings.size() == 2);
  CHECK(run.events.warnings[0].message == "the first");
  CHECK(run.events.warnings[1].message == "the second");
  CHECK(run.events.ends.at(0).device_notes == device.told_notes);
  CHECK(run.events.ends.at(0).num_warnings == 2);

  TestRun other(small_experiment, folder.path("other"));
  REQUIRE(other() == RunStatus::done);
  CHECK(other.events.warnings.empty());
  CHECK(other.events.ends.at(0).device_notes.empty());
}

TEST_CASE("What a device had to do in another way is told of a run that fails, too") {
  struct FullDisk : RecordingSink {
    bool takes_warnings = true;
    void take(const Event& event) override {
      if (std::holds_alternative<StepEvent>(event)) throw DataError("no space left");
      if (std::holds_alternative<WarningEvent>(event) && !takes_warnings) throw DataError("no space left for warnings");
      RecordingSink::take(event);
    }
  };
  const OutputFolder folder;
  for (const bool takes_warnings : {true, false}) {
    const TestRun run(small_experiment, folder.path(takes_warnings ? "one" : "other"));
    WrappedDevice device(make_cpu_device(1));
    device.told_notes = {"the only one"};
    FullDisk events;
    events.takes_warnings = takes_warnings;
    Interruption interruption;
    CHECK_THROWS_WITH(run_training(run.experiment, run.data, device, run.options, interruption, events),
                      "no space left");
    CHECK(events.warnings.size() == (takes_warnings ? 1 : 0));
    CHECK(events.ends.at(0).device_notes == device.told_notes);
    CHECK(events.ends.at(0).num_warnings == (takes_warnings ? 1 : 0));
  }
}
