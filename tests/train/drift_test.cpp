#include <malloc.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/memory/machine_memory.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/fresh_state.h"
#include "engine/train/training_loop.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

constexpr std::int64_t open_run_capacity = std::int64_t{1} << 28;

/// A run whose program and allocator are at hand.
struct OpenRun {
  TestRun run;
  std::unique_ptr<Device> device = make_cpu_device(1);
  CompiledExperiment compiled;
  RunDirectory directory;
  std::optional<Session> session;

  OpenRun(const char* yaml, const std::string& output, const std::vector<std::string>& overrides = {})
      : run(yaml, output, overrides),
        compiled(compile_experiment(run.experiment, run.data.description, *device, open_run_capacity)),
        directory(output) {}

  void open() {
    make_directories_durably(directory.path());
    session.emplace(compiled, run.data, *device, open_run_capacity);
  }

  RunStatus operator()(EventSink& events) {
    if (!session) open();
    load_fresh_state(session->executor(), compiled.experiment);
    RunProgress progress;
    ProgressSaver saver(compiled.program, directory, "test");
    TrainingLoop loop(*session, run.options, run.interruption, events, progress, &saver);
    return loop.run();
  }
};

/// Takes the release of a buffer out of every routine.
std::string drop_release(Program& program, const std::string& role) {
  BufferId dropped = -1;
  const auto drop = [&](Routine& routine) {
    std::erase_if(routine.instructions, [&](const Instruction& instruction) {
      if (instruction.kind != Instruction::Kind::release) return false;
      if (dropped < 0 && program.buffers[instruction.index].name.ends_with(role)) dropped = instruction.index;
      return instruction.index == dropped;
    });
  };
  for (Program::MicroBatch& micro_batch : program.micro_batches) {
    drop(micro_batch.first);
    drop(micro_batch.next);
  }
  drop(program.update);
  for (Routine& routine : program.evaluations) drop(routine);
  REQUIRE(dropped >= 0);
  return program.buffers[dropped].name;
}

constexpr const char* tiny_experiment = R"(
name: tiny
seed: 2
data: {type: synthetic, shape: [5], classes: 3, samples: 22, validation_samples: 4}
model: {layers: [linear: {out: 7}, relu, dropout: {p: 0.1}, linear: {out: 3}]}
optimizer: {type: adam, lr: 0.01}
train: {batch_size: 4, steps: 10000, eval_every: 1000}
)";

}  // namespace

TEST_CASE("A buffer that a step leaves behind is named once, with its step, and given back") {
  const std::string role = GENERATE(".output", ".grad");
  const OutputFolder folder;
  OpenRun whole(small_experiment, folder.path("whole"));
  RecordingSink expected;
  REQUIRE(whole(expected) == RunStatus::done);
  OpenRun leaking(small_experiment, folder.path("leaking"));
  const std::string name = drop_release(leaking.compiled.program, role);
  INFO(name);
  RecordingSink events;
  REQUIRE(leaking(events) == RunStatus::done);
  std::map<std::string, int> times;
  for (const WarningEvent& warning : events.warnings) {
    ++times[warning.buffer];
    CHECK(warning.message.find(warning.buffer) != std::string::npos);
    CHECK(warning.num_bytes > 0);
  }
  REQUIRE(times.count(name) == 1);
  CHECK(times[name] == 1);
  CHECK(events.warnings.front().step == 1);
  CHECK(events.warnings.front().buffer == name);
  // It does not add up, and changes nothing.
  CHECK(leaking.session->allocator().statistics().allocated_bytes.all.current ==
        whole.session->allocator().statistics().allocated_bytes.all.current);
  CHECK(events.steps.back().memory.step.peak_allocated <=
        events.steps.front().memory.step.peak_allocated + events.warnings.front().num_bytes);
  REQUIRE(events.steps.size() == expected.steps.size());
  for (std::size_t i = 0; i < events.steps.size(); ++i) CHECK(events.steps[i].loss == expected.steps[i].loss);
}

TEST_CASE("Memory that no buffer of the program accounts for is told once") {
  const OutputFolder folder;
  OpenRun open(small_experiment, folder.path("run"));
  struct Thief : RecordingSink {
    Allocator* allocator = nullptr;
    void take(const Event& event) override {
      RecordingSink::take(event);
      const auto* step = std::get_if<StepEvent>(&event);
      if (step != nullptr && (step->step == 5 || step->step == 20)) allocator->allocate(1000);
    }
  } events;
  open.open();
  events.allocator = &open.session->allocator();
  REQUIRE(open(events) == RunStatus::done);
  REQUIRE(events.warnings.size() == 1);
  CHECK(events.warnings[0].step == 6);
  CHECK(events.warnings[0].buffer.empty());
  CHECK(events.warnings[0].num_bytes == 1024);
}

TEST_CASE("Ten thousand steps leave every counter where it was") {
  const OutputFolder folder;
  OpenRun open(tiny_experiment, folder.path("run"));
  struct Watch : EventSink {
    OpenRun* open = nullptr;
    std::set<std::vector<std::int64_t>> counters;
    std::int64_t num_warnings = 0, resident = 0, heap = 0;
    void take(const Event& event) override {
      if (std::holds_alternative<WarningEvent>(event)) ++num_warnings;
      if (const auto* step = std::get_if<StepEvent>(&event)) count(*step);
    }
    void count(const StepEvent& event) {
      // Two epochs, with the odd last batch, and an evaluation have been seen.
      if (event.step <= 1012) return;
      const MemoryStatistics& statistics = open->session->allocator().statistics();
      std::int64_t num_live = 0;
      for (std::size_t b = 0; b < open->compiled.program.buffers.size(); ++b)
        num_live += open->session->executor().live().is_live(static_cast<BufferId>(b)) ? 1 : 0;
      const StepMemory& memory = event.memory.step;
      counters.insert({memory.allocated, memory.requested, memory.reserved,
                       statistics.allocation.all.allocated - statistics.allocation.all.freed,
                       statistics.segment.all.current, statistics.num_alloc_retries, statistics.num_ooms, num_live,
                       open->session->source().held()});
      const auto in_use = static_cast<std::int64_t>(mallinfo2().uordblks);
      if (event.step == 2000) resident = resident_bytes(), heap = in_use;
      if (event.step == 9999) resident = resident_bytes() - resident, heap = in_use - heap;
    }
  } watch;
  watch.open = &open;
  REQUIRE(open(watch) == RunStatus::done);
  CHECK(watch.num_warnings == 0);
  CHECK(watch.counters.size() == 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(watch.resident <= 64 * 1024);
  CHECK(watch.heap <= 4 * 1024);
#endif
}
