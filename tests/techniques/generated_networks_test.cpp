#include <catch2/catch.hpp>

#include "tests/techniques/free_of_consequence.h"
#include "tests/techniques/generated_experiments.h"
#include "tests/techniques/plan_equals_run.h"

namespace trainer {

namespace {

/// One of the ways that change no bit of this experiment.
Settings draw_settings(std::mt19937& random, const std::string& yaml) {
  std::vector<Settings> ways = free_of_consequence;
  ways.push_back({"memory.offload=['*']"});
  ways.push_back({"memory.expandable_segments=true", "memory.allocator=caching"});
  const auto has = [&](const char* part) { return yaml.find(part) != std::string::npos; };
  if (!has("accumulation_steps") && !has("clip_norm") && !has("amp: fp16")) {
    ways.push_back({"memory.update=in_backward"});
    ways.push_back({"memory.update=in_backward", "train.checkpointing=sqrt", "memory.allocator=planned"});
  }
  return ways[random() % ways.size()];
}

std::string saved_bytes(const std::string& output) {
  return file_bytes(checkpoint_file(output, 6, "model.safetensors")) +
         file_bytes(checkpoint_file(output, 6, "optimizer.safetensors"));
}

struct GeneratedRuns {
  std::string yaml;
  const OutputFolder& folder;
  Device& device;
  std::string expected{};  ///< bytes

  void check_as_it_is() {
    TestRun run(yaml, folder.path("expected"));
    run.options.overwrite = true;
    check_plan_equals_run(run, device);
    expected = saved_bytes(folder.path("expected"));
  }
  void check_same(const Settings& set) const {
    INFO(set.front());
    TestRun run(yaml, folder.path("changed"), set);
    run.options.overwrite = true;
    check_plan_equals_run(run, device);
    const bool is_same = saved_bytes(folder.path("changed")) == expected;
    CHECK(is_same);
  }
  /// Stopped behind a step, and gone on with other settings.
  void check_resumed(int stop, const Settings& before, const Settings& after) const {
    INFO("stopped behind step " << stop << ", " << before.front() << ", then " << after.front());
    TestRun first(yaml, folder.path("resumed"), before);
    first.options.overwrite = true;
    first.events.interrupt_after = stop;
    REQUIRE(first(device) == RunStatus::interrupted);
    TestRun second(yaml, folder.path("resumed"), after);
    second.options.resume = true;
    REQUIRE(second(device) == RunStatus::done);
    const bool is_same = saved_bytes(folder.path("resumed")) == expected;
    CHECK(is_same);
  }
};

}  // namespace

TEST_CASE("generated networks run as planned, and neither techniques nor stops change a bit of them") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  for (int i = 0; i < num_generated(30); ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    GeneratedRuns runs{generated_network(random), folder, *device};
    INFO("network " << i << "\n" << runs.yaml);
    runs.check_as_it_is();
    runs.check_same(draw_settings(random, runs.yaml));
    runs.check_same(draw_settings(random, runs.yaml));
    const int stop = static_cast<int>(1 + random() % 5);
    const Settings before = draw_settings(random, runs.yaml);
    runs.check_resumed(stop, before, draw_settings(random, runs.yaml));
  }
}

}  // namespace trainer
