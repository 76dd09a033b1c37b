#include "engine/train/agreed_cut.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/plan/search/fitting_cut.h"
#include "tests/device/described_device.h"
#include "tests/ranks/pipeline_cases.h"

// Ranks that have not the same memory, and one cut of a pipeline.

using namespace trainer;

TEST_CASE("ranks of a pipeline have one cut, that of the least memory of them all") {
  const std::vector<std::string> overrides = {"parallel.pipeline=3", "parallel.micro_batches=4",
                                              "memory.allocator=planned"};
  const Experiment experiment = parse_experiment(tied_model, "test.yaml", overrides);
  const DataDescription data = describe_data(experiment.data, experiment.seed);
  const DescribedDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  const std::int64_t by_time = planner.plan(experiment, data, std::int64_t{1} << 40).peak_reserved;
  const auto settled = [&](std::int64_t capacity) {
    return with_settled_cut(experiment, data, device, capacity).parallel.cut;
  };
  REQUIRE(settled(by_time).empty());
  REQUIRE_FALSE(settled(by_time - 1).empty());
  for (const int least : {0, 1, 2})
    for (const std::int64_t capacity : {by_time, by_time - 1, std::int64_t{1000}}) {
      std::vector<std::vector<std::string>> cuts(3);
      on_ranks(3, [&](SocketCommunicator& ranks) {
        Experiment of_rank = experiment;
        of_rank.parallel.rank = ranks.rank();
        cuts[static_cast<std::size_t>(ranks.rank())] =
            with_agreed_cut(of_rank, data, device, ranks.rank() == least ? capacity : 2 * by_time, &ranks).parallel.cut;
      });
      for (const std::vector<std::string>& cut : cuts) CHECK(cut == settled(capacity));
    }
}
