#include "engine/plan/search/largest_value.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "engine/config/load_experiment.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/find_maximum.h"
#include "tests/device/described_device.h"

namespace trainer {

TEST_CASE("values that cannot be, however many in a row, do not end the search for the largest") {
  const DescribedDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\n"
      "model: {layers: [{linear: {out: 8}}, flatten, {linear: {out: 10}}]}\ntrain: {batch_size: 8}\n",
      "test.yaml");
  // Divisors of 2048, as groups would be.
  const WithValue with_value = [&](std::int64_t value) -> std::optional<Candidate> {
    if (2048 % value != 0) return std::nullopt;
    return Candidate{experiment, data};
  };
  for (const std::int64_t highest : {1500, 2047, 2048, 2500, 3000, 4000}) {
    INFO(highest);
    const LargestValue found =
        find_largest_value(planner, with_value, {.highest = highest, .capacity = unlimited_capacity});
    CHECK(found.value == (highest >= 2048 ? 2048 : 1024));
    CHECK_FALSE(found.next.has_value());
    CHECK(found.num_unknown == 0);
  }
  // Too far apart to be found.
  const WithValue two = [&](std::int64_t value) -> std::optional<Candidate> {
    if (value != 1 && value != 1'000'000) return std::nullopt;
    return Candidate{experiment, data};
  };
  const LargestValue found = find_largest_value(planner, two, {.highest = 2'000'000, .capacity = unlimited_capacity});
  CHECK(found.value == 1);
  CHECK(found.num_unknown > 0);
}

TEST_CASE("a value that is known not to fit, and what lies below it, is never told as fitting") {
  // Of a thousand batches one fails, far below the largest: only who planned it knows.
  class OneBatchDevice final : public DescribedDevice {
   public:
    std::int64_t workspace_bytes(const Op& op) const override {
      const bool is_matmul = std::holds_alternative<LinearAttributes>(op.attributes);
      return is_matmul && op.outputs.front().shape[0] == 37 ? std::int64_t{1} << 30 : 0;
    }
  };
  const OneBatchDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  const DataDescription data = described_data({100}, 10, 2000);
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [100], classes: 10, samples: 2000}\n"
      "model: {layers: [{linear: {out: 200}}, relu, {linear: {out: 10}}]}\ntrain: {batch_size: 37}\n",
      "test.yaml");
  const LargestValue found = find_largest_batch(planner, experiment, data, std::int64_t{64} << 20);
  CHECK(found.value == 36);
  CHECK(found.next == 37);
}

TEST_CASE("a value that the search for a range's end saw failing bounds the answer") {
  // Of the widths that memory allows only 64 does not fit, which is looked at on the way to the end. The network is so
  // deep that there is no work for looking at all that is below what bisection finds.
  class OneWidthDevice final : public DescribedDevice {
   public:
    std::int64_t workspace_bytes(const Op& op) const override {
      const bool is_matmul = std::holds_alternative<LinearAttributes>(op.attributes);
      return is_matmul && op.outputs.front().shape[1] == 64 ? std::int64_t{1} << 40 : 0;
    }
  };
  const OneWidthDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  const DataDescription data = described_data({100}, 10, 200);
  const WithValue with_width = [&](std::int64_t width) -> std::optional<Candidate> {
    return Candidate{
        parse_experiment("data: {type: synthetic, shape: [100], classes: 10, samples: 200}\n"
                         "model: {layers: [{repeat: {times: 150, layers: [{linear: {out: " +
                             std::to_string(width) + "}}, relu]}}, {linear: {out: 10}}]}\ntrain: {batch_size: 10}\n",
                         "test.yaml"),
        data};
  };
  const Maximum maximum = find_maximum(
      planner, with_width,
      {.lowest = 1, .highest = {}, .largest_allowed = 5000, .capacity = std::int64_t{300} << 20, .own = {}});
  CHECK(maximum.found.value == 63);
  REQUIRE(maximum.next.has_value());
  CHECK(maximum.next->value == 64);
}

}  // namespace trainer
