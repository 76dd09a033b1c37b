#include "engine/plan/pipeline_time.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

constexpr std::int64_t num_stages = 4, num_features = 60;
constexpr double bytes_per_second = 1e6, weight_seconds = num_features * num_features * 4 / bytes_per_second;

/// Of a layer a stage; `owners`: by stage, the one whose weight it uses.
double step_seconds(const std::vector<int>& owners) {
  std::string layers;
  for (std::size_t stage = 0; stage < owners.size(); ++stage) {
    const bool is_own = owners[stage] == static_cast<int>(stage);
    layers += std::string(stage > 0 ? ", " : "") + "{linear: {out: 60, bias: false, name: stage" +
              std::to_string(stage) + (is_own ? "" : ", share: stage" + std::to_string(owners[stage])) + "}}";
  }
  Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [60], classes: 60, samples: 64}\nmodel: {layers: [" + layers +
          "]}\nparallel: {pipeline: 4, micro_batches: 4, cut: [stage1, stage2, stage3]}\ntrain: {batch_size: 8}\n",
      "test.yaml");
  const DataDescription data = described_data({60}, 60, 64);
  std::vector<Program> programs;
  for (std::int64_t rank = 0; rank < num_stages; ++rank) {
    experiment.parallel.rank = rank;
    programs.push_back(compile(experiment, data, DescribedDevice()));
  }
  std::vector<const Program*> stages;
  for (const Program& program : programs) stages.push_back(&program);
  MachineRates rates = assumed_cpu_rates(1);
  rates.links = {};
  rates.links.within = {"a slow link", bytes_per_second, 0, 0};
  rates.links.ranks_per_node = num_stages;
  return predict_pipeline_time(stages, RunSchedule(experiment, data), rates).step.seconds;
}

}  // namespace

TEST_CASE("stages that use one weight wait for its sums pair by pair, there and back; other pairs add up beside them") {
  const double alone = step_seconds({0, 1, 2, 3});
  const auto sums = [&](const std::vector<int>& owners) { return (step_seconds(owners) - alone) / weight_seconds; };
  const auto times = [](double count) { return Approx(count).margin(0.01); };
  CHECK(sums({0, 0, 2, 3}) == times(1));
  CHECK(sums({0, 1, 2, 0}) == times(1));
  CHECK(sums({0, 0, 2, 2}) == times(1));  // two weights, of other stages
  CHECK(sums({0, 1, 1, 0}) == times(1));
  CHECK(sums({0, 0, 2, 0}) == times(3));
  CHECK(sums({0, 0, 0, 0}) == times(5));
}
