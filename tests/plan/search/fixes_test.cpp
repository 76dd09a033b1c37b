#include "engine/plan/search/fixes.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

const std::string network =
    "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 512}\n"
    "model: {layers: [{conv2d: {out: 64, kernel: 3}}, relu, {conv2d: {out: 64, kernel: 3}}, relu, flatten,"
    " {linear: {out: 30}}, relu, {linear: {out: 10}}]}\n"
    "train: {batch_size: 128}\noptimizer: {type: adam, betas: [0.9, 0.99]}\n";

bool fits(const Experiment& experiment, const DataDescription& data, std::int64_t capacity) {
  const DescribedDevice device;
  const Experiment settled = settle_experiment(experiment, data, device, capacity);
  return make_memory_plan(compile(settled, data, device), RunSchedule(experiment, data), capacity,
                          allocator_options(experiment))
      .fits;
}

std::vector<Change> find_fixes_of(const DeviceModel& device, const Experiment& experiment, const DataDescription& data,
                                  std::int64_t capacity, std::int64_t device_capacity = 0) {
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  return find_advice(planner, experiment, data, capacity, device_capacity).fixes;
}

std::int64_t largest_batch_of(const DeviceModel& device, const Experiment& experiment, const DataDescription& data,
                              std::int64_t capacity) {
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  return find_largest_batch(planner, experiment, data, capacity).value.value_or(0);
}

}  // namespace

TEST_CASE("every fix that is offered fits when it is pasted as overrides") {
  const DataDescription data = described_data({16, 16, 3}, 10, 512, 64);
  const Experiment experiment = parse_experiment(network, "test.yaml");
  const DescribedDevice device;
  const MemoryPlan plan =
      make_memory_plan(compile(experiment, data, device), RunSchedule(experiment, data), unlimited_capacity);
  for (double share : {0.9, 0.7, 0.5}) {
    const auto capacity = static_cast<std::int64_t>(share * static_cast<double>(plan.peak_reserved));
    const std::vector<Change> fixes = find_fixes_of(device, experiment, data, capacity);
    INFO("capacity " << capacity);
    int num_fitting = 0;
    for (const Change& fix : fixes) {
      std::vector<std::string> overrides = fix.set;
      const Experiment changed = parse_experiment(network, "test.yaml", overrides);
      INFO(fix.set.front());
      CHECK(fits(changed, data, capacity) == fix.fits);
      CHECK(fix.relative_step_time > 0);
      num_fitting += fix.fits ? 1 : 0;
    }
    CHECK(num_fitting >= 3);
  }
}

TEST_CASE("the smaller batch that is offered is the largest that fits") {
  const DataDescription data = described_data({16, 16, 3}, 10, 512);
  const Experiment experiment = parse_experiment(network, "test.yaml");
  const std::int64_t capacity = 48 * 1024 * 1024;
  const std::int64_t largest = largest_batch_of(DescribedDevice(), experiment, data, capacity);
  REQUIRE(largest >= 1);
  REQUIRE(largest < 512);
  Experiment changed = experiment;
  changed.train.batch_size = largest;
  CHECK(fits(changed, data, capacity));
  changed.train.batch_size = largest + 1;
  CHECK_FALSE(fits(changed, data, capacity));
}

TEST_CASE("accumulation keeps the samples of an update") {
  const DataDescription data = described_data({16, 16, 3}, 10, 512);
  const Experiment experiment = parse_experiment(network, "test.yaml");
  bool found = false;
  for (const Change& fix : find_fixes_of(DescribedDevice(), experiment, data, 48 * 1024 * 1024)) {
    if (fix.set.size() != 2 || fix.set[1].rfind("train.accumulation_steps=", 0) != 0) continue;
    found = true;
    const std::int64_t batch = std::stoll(fix.set[0].substr(std::string("train.batch_size=").size()));
    const std::int64_t parts = std::stoll(fix.set[1].substr(std::string("train.accumulation_steps=").size()));
    CHECK(batch * parts == 128);
    CHECK(fix.same_result());
  }
  CHECK(found);
}

TEST_CASE("accumulation promises the same result only where the cut of the batch does not matter") {
  const DataDescription data = described_data({16, 16, 3}, 10, 512);
  auto promises = [&](const std::string& layer, const std::string& rest, const DataDescription& described) {
    const std::string text =
        "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 512" + rest +
        "}\nmodel: {layers: [{conv2d: {out: 64, kernel: 3}}, relu, " + layer +
        ", {conv2d: {out: 64, kernel: 3}}, relu, flatten, {linear: {out: 30}}, relu, {linear: {out: 10}}]}\n"
        "train: {batch_size: 128}\noptimizer: {type: adam}\n";
    const Experiment experiment = parse_experiment(text, "test.yaml");
    for (const Change& fix : find_fixes_of(DescribedDevice(), experiment, described, 20 * 1024 * 1024)) {
      if (fix.set.size() == 2 && fix.set[1].rfind("train.accumulation_steps=", 0) == 0) return fix.same_result();
    }
    FAIL("no accumulation was offered");
    return false;
  };
  CHECK(promises("silu", "", data));
  CHECK_FALSE(promises("batchnorm2d", "", data));
  CHECK_FALSE(promises("{dropout: {p: 0.5}}", "", data));
  CHECK_FALSE(promises("{sequential: {layers: [{dropout: {p: 0.5}}]}}", "", data));
  // 480 = 3 × 128 + 96: whole batches alone see 384 samples, halves of them 448.
  CHECK_FALSE(promises("silu", ", drop_last: true", described_data({16, 16, 3}, 10, 480)));
}

TEST_CASE("less scratch is offered where scratch is what does not fit") {
  // A device whose convolutions take all the scratch they may.
  class GreedyDevice : public DescribedDevice {
   public:
    std::int64_t workspace_bytes(const Op& op) const override {
      const auto* conv2d = std::get_if<Conv2dAttributes>(&op.attributes);
      return conv2d == nullptr ? 0 : std::min<std::int64_t>(conv2d->workspace_limit, 40 * 1024 * 1024);
    }
  };
  const DataDescription data = described_data({16, 16, 3}, 10, 512);
  const Experiment experiment = parse_experiment(network, "test.yaml");
  const std::vector<Change> fixes = find_fixes_of(GreedyDevice(), experiment, data, 96 * 1024 * 1024);
  const auto fix = std::find_if(fixes.begin(), fixes.end(), [](const Change& each) {
    return each.set == std::vector<std::string>{"memory.workspace_limit=0"};
  });
  REQUIRE(fix != fixes.end());
  CHECK(fix->fits);
  const Experiment changed = parse_experiment(network, "test.yaml", fix->set);
  CHECK(changed.memory.workspace_limit == 0);
}

TEST_CASE("expandable segments are offered where they fit what segments of fixed sizes do not") {
  const DataDescription data = described_data({16, 16, 3}, 10, 512);
  const auto peak_reserved = [&](const Experiment& experiment) {
    return make_memory_plan(compile(experiment, data, DescribedDevice()), RunSchedule(experiment, data),
                            unlimited_capacity, allocator_options(experiment))
        .peak_reserved;
  };
  const std::vector<std::string> set = {"memory.expandable_segments=true"};
  const std::string caching = "memory.allocator=caching";
  // A batch size that leaves much of the segments of fixed sizes idle.
  Experiment experiment, changed;
  std::int64_t capacity = 0;
  for (std::int64_t batch_size = 100; batch_size < 400 && capacity == 0; batch_size += 20) {
    experiment = parse_experiment(network, "test.yaml", {"train.batch_size=" + std::to_string(batch_size), caching});
    changed = parse_experiment(network, "test.yaml",
                               {"train.batch_size=" + std::to_string(batch_size), set.front(), caching});
    if (peak_reserved(changed) < peak_reserved(experiment)) capacity = peak_reserved(changed);
  }
  REQUIRE(capacity > 0);
  const auto offered = [&](const Experiment& failing) {
    const std::vector<Change> fixes = find_fixes_of(DescribedDevice(), failing, data, capacity);
    const auto fix = std::find_if(fixes.begin(), fixes.end(), [&](const Change& each) { return each.set == set; });
    return fix == fixes.end() ? Change{} : *fix;
  };
  CHECK(offered(experiment).fits);
  CHECK(offered(experiment).same_result());
  CHECK(offered(experiment).peak_reserved == capacity);
  CHECK(offered(changed).set.empty());
}

namespace {

/// A device that has no kernel for small batches: below `least_batch`.
class DeviceForBatches : public DescribedDevice {
 public:
  explicit DeviceForBatches(std::int64_t least_batch) : least_batch_(least_batch) {}
  std::int64_t workspace_bytes(const Op& op) const override {
    if (std::holds_alternative<Conv2dAttributes>(op.attributes) && op.inputs[0].shape[0] < least_batch_)
      throw DeviceError("there is no engine for this convolution");
    return 0;
  }

 private:
  std::int64_t least_batch_;
};

}  // namespace

TEST_CASE("a change that the device has no kernel for is no fix, and does not end the search") {
  const DataDescription data = described_data({16, 16, 3}, 10, 512);
  // Without a last, smaller batch: each batch size is one shape.
  const Experiment experiment = parse_experiment(network, "test.yaml", {"data.drop_last=true"});
  const std::int64_t capacity = 48 * 1024 * 1024;
  const DeviceForBatches device(5);
  const std::int64_t largest = largest_batch_of(DescribedDevice(), experiment, data, capacity);
  REQUIRE(largest >= 5);
  CHECK(largest_batch_of(device, experiment, data, capacity) == largest);
  const std::vector<Change> fixes = find_fixes_of(device, experiment, data, capacity);
  CHECK(std::any_of(fixes.begin(), fixes.end(), [&](const Change& fix) {
    return fix.fits && fix.set == std::vector<std::string>{"train.batch_size=" + std::to_string(largest)};
  }));
  for (const Change& fix : find_fixes_of(device, experiment, data, 1024 * 1024))
    CHECK(fix.set.front() != "train.batch_size=1");
}

TEST_CASE("a higher limit is offered where the device has the memory for the allocator that takes less") {
  const DataDescription data = described_data({16, 16, 3}, 10, 512);
  const DescribedDevice device;
  const auto peak_of = [&](const std::string& allocator) {
    const Experiment experiment = parse_experiment(network, "test.yaml", {"memory.allocator=" + allocator});
    return make_memory_plan(compile(experiment, data, device), RunSchedule(experiment, data), unlimited_capacity)
        .peak_reserved;
  };
  const std::int64_t least = peak_of("planned");
  constexpr std::int64_t mebibyte = 1 << 20;
  REQUIRE(least + mebibyte < peak_of("caching"));
  const Experiment experiment = parse_experiment(network, "test.yaml", {"memory.limit=24MiB"});
  const std::string words = "memory.limit=" + std::to_string((least + mebibyte - 1) / mebibyte) + "MiB";
  const auto offers_limit = [&](std::int64_t device_capacity) {
    const std::vector<Change> fixes = find_fixes_of(device, experiment, data, 24 * mebibyte, device_capacity);
    return std::any_of(fixes.begin(), fixes.end(),
                       [&](const Change& fix) { return fix.fits && fix.set == std::vector<std::string>{words}; });
  };
  CHECK(offers_limit(least + mebibyte));
  CHECK_FALSE(offers_limit(least - 1));
}

TEST_CASE("an experiment that the device has no kernel for is still searched for changes that it has") {
  const DataDescription data = described_data({16, 16, 3}, 10, 512);
  const Experiment experiment = parse_experiment(network, "test.yaml", {"memory.limit=48MiB"});
  const std::int64_t capacity = 48 * 1024 * 1024;
  CHECK(largest_batch_of(DeviceForBatches(1000), experiment, data, capacity) == 0);
  CHECK(find_fixes_of(DeviceForBatches(1000), experiment, data, capacity, capacity * 10).empty());
}

TEST_CASE("a change of the model is advised behind those that keep it, however fast it is") {
  const auto change_of = [](ChangePart part, double time) {
    Change change;
    change.parts = {part};
    change.set = {"a=1"};
    change.relative_step_time = time;
    return change;
  };
  const Change batch = change_of(Effect::largest_batch, 1.0), cut = change_of(Effect::narrower_layer, 0.3),
               cuts = change_of(NarrowerLayers{3, 2}, 0.3), sgd = change_of(Effect::no_moments, 0.9),
               half = change_of(Effect::half_operands, 0.5), limit = change_of(Effect::higher_limit, 0.3);
  const std::vector<const Change*> order = {&half, &batch, &sgd, &cut, &limit};
  for (std::size_t i = 1; i < order.size(); ++i) {
    CHECK(is_advised_before(*order[i - 1], *order[i]));
    CHECK_FALSE(is_advised_before(*order[i], *order[i - 1]));
  }
  CHECK_FALSE(is_advised_before(cut, cuts));
  CHECK_FALSE(is_advised_before(cuts, cut));
}
