#include <catch2/catch.hpp>

#include "engine/plan/memory_plan.h"
#include "engine/plan/search/planner.h"
#include "tests/techniques/networks.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

TEST_CASE("a run that only places fit takes them, says so, resumes under more memory, and has the bits of any other") {
  const OutputFolder folder;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const MachineRates rates = assumed_cpu_rates(1);
  for (const TechniqueNetwork& network : technique_networks()) {
    INFO(network.name);
    const std::vector<std::string> set = {"train.batch_size=5", "train.steps=6", "checkpoint.every=3"};
    const auto with = [&](const std::string& more) {
      std::vector<std::string> all = set;
      all.push_back(more);
      return all;
    };
    TestRun plenty(network.yaml, folder.path("plenty"), set);
    plenty.options.overwrite = true;
    REQUIRE(plenty(*device) == RunStatus::done);
    CHECK(plenty.events.starts.at(0).allocator == AllocatorKind::caching);

    Planner planner(*device, rates);
    const TestRun placed(network.yaml, folder.path("unused"), with("memory.allocator=planned"));
    const std::int64_t least =
        planner.plan(placed.experiment, placed.data.description, unlimited_capacity).peak_reserved;
    const std::string limit = "memory.limit=" + std::to_string(least);
    TestRun caching(network.yaml, folder.path("caching"), with(limit));
    caching.experiment.memory.allocator = AllocatorKind::caching;
    caching.options.overwrite = true;
    REQUIRE(caching(*device) == RunStatus::out_of_memory);
    CHECK_FALSE(caching.events.failures.at(0).allocator_was_chosen);

    TestRun tight(network.yaml, folder.path("tight"), with(limit));
    tight.options.overwrite = true;
    tight.events.interrupt_after = 3;
    REQUIRE(tight(*device) == RunStatus::interrupted);
    CHECK(tight.events.starts.at(0).allocator == AllocatorKind::planned);
    TestRun resumed(network.yaml, folder.path("tight"), set);
    resumed.options.resume = true;
    REQUIRE(resumed(*device) == RunStatus::done);
    CHECK(resumed.events.starts.at(0).allocator == AllocatorKind::caching);
    REQUIRE(resumed.events.steps.size() == 3);
    for (std::size_t i = 0; i < 6; ++i) {
      const StepEvent& step = i < 3 ? tight.events.steps.at(i) : resumed.events.steps.at(i - 3);
      CHECK(step.loss == plenty.events.steps.at(i).loss);
    }

    TestRun hopeless(network.yaml, folder.path("hopeless"), with("memory.limit=" + std::to_string(least - 1)));
    hopeless.options.overwrite = true;
    REQUIRE(hopeless(*device) == RunStatus::out_of_memory);
    CHECK(hopeless.events.failures.at(0).allocator == AllocatorKind::caching);
    CHECK(hopeless.events.failures.at(0).allocator_was_chosen);
    CHECK(hopeless.events.failures.at(0).planned_does_not_fit_either);
  }
}

}  // namespace trainer
