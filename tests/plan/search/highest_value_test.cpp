#include "engine/plan/search/highest_value.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/batch_family.h"
#include "engine/plan/search/largest_value.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/plan/search/sized_program.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

namespace trainer {

namespace {

/// A device with what makes memory jump: a staged batch, masks of layers of 64 outputs or more, and scratch that the
/// batch size decides without any order.
class JumpingDevice : public DescribedDevice {
 public:
  std::string name() const override { return "jumping device"; }
  std::int64_t workspace_bytes(const Op& op) const override {
    if (!std::holds_alternative<Conv2dAttributes>(op.attributes) &&
        !std::holds_alternative<LinearAttributes>(op.attributes))
      return 0;
    const std::int64_t samples = op.inputs[0].shape[0];
    return samples * 2654435761 % 7 * (std::int64_t{1} << 20);
  }
  bool copies_ahead() const override { return true; }
  LinearFusions linear_fusions() const override { return {.relu_gradients = true, .gelu = true}; }
};

/// A device whose convolutions need much scratch for batches whose size is no multiple of 8, and has none below 3.
class MultiplesDevice : public DescribedDevice {
 public:
  std::string name() const override { return "device for multiples of 8"; }
  std::int64_t workspace_bytes(const Op& op) const override {
    if (!std::holds_alternative<Conv2dAttributes>(op.attributes)) return 0;
    const std::int64_t samples = op.inputs[0].shape[0];
    if (samples < 3) throw DeviceError("there is no engine for this convolution");
    return samples % 8 == 0 ? 0 : std::int64_t{24} << 20;
  }
};

/// Networks over a value named VALUE, or with the batch size as the value, with the range that is searched.
struct SearchedNetwork {
  const char* name;
  const char* model;
  const char* key;
  std::int64_t highest;
  Shape sample;
};

const std::vector<SearchedNetwork> searched_networks = {
    {"mlp, batch",
     "[linear: {out: 9000}, relu, dropout: {p: 0.2}, linear: {out: 7000}, gelu: {approximate: tanh}, linear: {out: "
     "10}]",
     "train.batch_size", 61, Shape{5000}},
    {"residual mlp, batch",
     "[linear: {out: 30000}, repeat: {times: 2, layers: [residual: {layers: [layernorm, linear: {out: 50}, silu, "
     "linear: {out: 30000}]}]}, linear: {out: 10}]",
     "train.batch_size", 61, Shape{400}},
    {"cnn, batch",
     "[conv2d: {out: 16, kernel: 3, padding: 1}, batchnorm2d, relu, maxpool2d: {kernel: 2}, conv2d: {out: 24, kernel: "
     "3}, relu, flatten, linear: {out: 10}]",
     "train.batch_size", 61, Shape{48, 48, 3}},
    {"many classes, batch", "[linear: {out: 100}, relu, linear: {out: 200000}]", "train.batch_size", 61, Shape{100}},
    {"depth", "[linear: {out: 700}, repeat: {times: VALUE, layers: [linear: {out: 700}, relu]}, linear: {out: 10}]",
     "model.layers.1.repeat.times", 40, Shape{100}},
    {"depth of blocks",
     "[conv2d: {out: 24, kernel: 3, padding: 1}, repeat: {times: VALUE, layers: [residual: {layers: [conv2d: {out: 24, "
     "kernel: 3, padding: 1}, batchnorm2d, relu]}]}, global_avgpool, linear: {out: 10}]",
     "model.layers.1.repeat.times", 30, Shape{32, 32, 3}},
    {"depth of pooling",
     "[repeat: {times: VALUE, layers: [conv2d: {out: 16, kernel: 3, padding: 1}, maxpool2d: {kernel: 2}]}, "
     "flatten, linear: {out: 10}]",
     "model.layers.0.repeat.times", 8, Shape{64, 64, 3}},
    {"width", "[linear: {out: VALUE}, relu, linear: {out: 900}, relu, linear: {out: 10}]", "model.layers.0.linear.out",
     160, Shape{3000}},
    {"kernel", "[conv2d: {out: 32, kernel: VALUE}, relu, conv2d: {out: 32, kernel: 3}, flatten, linear: {out: 10}]",
     "model.layers.0.conv2d.kernel", 40, Shape{40, 40, 3}},
};

/// What may stand beside a key that is searched.
std::vector<std::string> random_settings(std::mt19937& random, const std::string& key, bool is_many_classes) {
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  std::vector<std::string> set;
  if (key != "train.batch_size") set.push_back("train.batch_size=" + std::to_string(1 + random() % 40));
  if (one_in(4))
    set.emplace_back("memory.allocator=planned");
  else if (one_in(3))
    set.emplace_back("memory.expandable_segments=true");
  if (std::find(set.begin(), set.end(), "memory.allocator=planned") == set.end() && random() % 8 != 0)
    set.emplace_back("memory.allocator=caching");
  if (one_in(3)) set.emplace_back("data.drop_last=true");
  if (one_in(3)) set.push_back("train.eval_batch_size=" + std::to_string(1 + random() % 60));
  if (one_in(4))
    set.emplace_back("train.amp=bf16");
  else if (one_in(4))
    set.emplace_back("train.amp=fp16");
  if (one_in(3))
    set.push_back("train.accumulation_steps=" + std::to_string(2 + random() % 3));
  else if (one_in(4))
    set.emplace_back("memory.update=in_backward");
  if (one_in(3)) set.emplace_back("optimizer={type: adamw, lr: 0.001}");
  if (one_in(4))
    set.emplace_back("train.checkpointing={every: 2}");
  else if (one_in(5))
    set.emplace_back("train.checkpointing=sqrt");
  if (one_in(5)) set.emplace_back("memory.recompute_cheap=false");
  if (one_in(5)) set.emplace_back("memory.in_place=false");
  if (is_many_classes && one_in(2)) set.emplace_back("memory.chunked_loss=8");
  if (one_in(3) && std::find(set.begin(), set.end(), "memory.update=in_backward") == set.end()) {
    const char* const shards[] = {"none", "optimizer", "gradients", "parameters"};
    set.push_back(std::string("parallel={data: 2, bucket_size: ") + (one_in(2) ? "1" : "0") +
                  ", shard: " + shards[random() % std::size(shards)] + "}");
  }
  return set;
}

std::string text_of(const SearchedNetwork& network, std::int64_t value) {
  std::string model = network.model;
  if (const std::size_t at = model.find("VALUE"); at != std::string::npos) model.replace(at, 5, std::to_string(value));
  std::string shape;
  for (const std::int64_t dim : network.sample) shape += (shape.empty() ? "" : ", ") + std::to_string(dim);
  const int classes = std::string(network.name).find("many") == std::string::npos ? 10 : 200000;
  return "data: {type: synthetic, shape: [" + shape + "], classes: " + std::to_string(classes) +
         ", samples: 61, validation_samples: 31}\nmodel:\n  layers: " + model + "\n";
}

/// By value; nothing where a rule refuses it.
std::vector<std::optional<Candidate>> candidates_of(const SearchedNetwork& network,
                                                    const std::vector<std::string>& set) {
  const bool is_many_classes = std::string(network.name).find("many") != std::string::npos;
  const DataDescription data = described_data(network.sample, is_many_classes ? 200000 : 10, 61, 31);
  std::vector<std::optional<Candidate>> candidates(static_cast<std::size_t>(network.highest) + 1);
  for (std::int64_t value = 1; value <= network.highest; ++value) {
    try {
      const bool is_batch = std::string(network.key) == "train.batch_size";
      if (!is_batch || value == 1)
        candidates[value] = Candidate{parse_experiment(text_of(network, value), "test.yaml", set), data};
      else
        candidates[value] = candidates[1];
      if (is_batch) candidates[value]->experiment.train.batch_size = value;
    } catch (const ConfigError&) {
    }
  }
  return candidates;
}

struct Oracle {
  bool can_be = false;
  bool fits = false;
  std::int64_t peak_reserved = 0;
};

/// memory.allocator: auto is the better of both.
Oracle plan_one(const DeviceModel& device, const Candidate& candidate, std::int64_t capacity,
                PlacedLayouts placed = PlacedLayouts::where_needed) {
  if (candidate.experiment.memory.allocator == AllocatorKind::automatic) {
    const auto with = [&](AllocatorKind kind) {
      Candidate chosen = candidate;
      chosen.experiment.memory.allocator = kind;
      if (kind == AllocatorKind::planned) chosen.experiment.memory.expandable_segments = false;
      return plan_one(device, chosen, capacity, PlacedLayouts::never);
    };
    const Oracle caching = with(AllocatorKind::caching);
    if (caching.fits) return caching;
    const Oracle planned = with(AllocatorKind::planned);
    return planned.fits ? planned : caching;
  }
  try {
    const MemoryPlan plan = make_memory_plan(compile(candidate.experiment, candidate.data, device),
                                             RunSchedule(candidate.experiment, candidate.data), capacity,
                                             allocator_options(candidate.experiment, placed));
    return {true, plan.fits, plan.peak_reserved};
  } catch (const ConfigError&) {
  } catch (const DeviceError&) {
  }
  return {};
}

}  // namespace

namespace {

/// Against what every value says for itself. One that cannot be may be told as failing, where what was planned of it
/// does not fit.
void check_largest(const LargestValue& found, const WithValue& with_value, const std::vector<bool>& fits,
                   const std::vector<bool>& can_be, std::int64_t first_failing) {
  const auto highest = static_cast<std::int64_t>(fits.size()) - 1;
  if (found.next && !can_be[static_cast<std::size_t>(*found.next)])
    first_failing = std::min(first_failing, *found.next);
  std::optional<std::int64_t> largest;
  for (std::int64_t value = 1; value < first_failing; ++value)
    if (fits[static_cast<std::size_t>(value)]) largest = value;
  // The ranges are small enough for all of them to be planned.
  CHECK(found.value == largest);
  CHECK(found.next.value_or(highest + 1) == first_failing);
  if (!found.value) return;
  CHECK(found.planned_from <= 1);
  const auto is_smaller = [&](std::int64_t value) { return value < *found.value && with_value(value); };
  std::int64_t num_smaller = 0;
  for (std::int64_t value = 1; value <= highest; ++value)
    num_smaller += is_smaller(value) && fits[static_cast<std::size_t>(value)] ? 1 : 0;
  CHECK(found.num_smaller == num_smaller);
}

}  // namespace

TEST_CASE("the highest and the largest value are those of planning every one of them", "[exhaustive]") {
  std::vector<std::unique_ptr<DeviceModel>> devices;
  devices.push_back(std::make_unique<DescribedDevice>());
  devices.push_back(std::make_unique<JumpingDevice>());
  devices.push_back(std::make_unique<MultiplesDevice>());
  const MachineRates rates = assumed_cpu_rates(1);
  std::mt19937 random(20240611);
  int num_searches = 0, num_in_range = 0, num_not_monotone = 0, num_isolated = 0, num_planned = 0, num_values = 0;
  for (int round = 0; round < 5; ++round)
    for (const SearchedNetwork& network : searched_networks) {
      const bool is_many_classes = std::string(network.name).find("many") != std::string::npos;
      const std::vector<std::string> set = random_settings(random, network.key, is_many_classes);
      const std::vector<std::optional<Candidate>> candidates = candidates_of(network, set);
      const auto probe = 1 + random() % static_cast<unsigned>(network.highest);
      std::string words;
      for (const std::string& word : set) words += " " + word;
      for (const std::unique_ptr<DeviceModel>& device : devices) {
        const WithValue with_value = [&](std::int64_t value) { return candidates[static_cast<std::size_t>(value)]; };
        if (!candidates[probe]) continue;
        const std::int64_t peak = plan_one(*device, *candidates[probe], unlimited_capacity).peak_reserved;
        if (peak == 0) continue;
        const std::int64_t capacity =
            std::max<std::int64_t>(peak - static_cast<std::int64_t>(random() % 3) * 1048577, 0);
        INFO(network.name << "," << words << ", capacity " << capacity << ", device " << device->name());

        std::optional<std::int64_t> largest;
        std::vector<bool> fits(static_cast<std::size_t>(network.highest) + 1), can_be(fits.size());
        std::int64_t first_failing = network.highest + 1;
        std::vector<std::int64_t> failing_below;
        std::int64_t largest_peak = 0;
        for (std::int64_t value = network.highest; value >= 1; --value) {
          if (!with_value(value)) continue;
          ++num_values;
          const Oracle oracle = plan_one(*device, *with_value(value), capacity);
          fits[static_cast<std::size_t>(value)] = oracle.fits;
          can_be[static_cast<std::size_t>(value)] = oracle.can_be;
          if (!oracle.fits && oracle.can_be) first_failing = value;
          if (oracle.fits && !largest) {
            largest = value;
            largest_peak = oracle.peak_reserved;
          } else if (!oracle.fits && largest && oracle.can_be) {
            failing_below.insert(failing_below.begin(), value);
          }
        }

        Planner planner(*device, rates);
        const HighestValue found = find_highest_value(planner, with_value, 1, network.highest, capacity);
        CHECK(found.value == largest);
        CHECK(found.num_unknown == 0);
        CHECK(found.peak_reserved == largest_peak);
        CHECK(found.highest == network.highest);
        CHECK(std::includes(failing_below.begin(), failing_below.end(), found.smaller_that_fail.begin(),
                            found.smaller_that_fail.end()));
        // Its neighbours are looked at in any case.
        if (!failing_below.empty() && failing_below.back() >= *largest - 8)
          CHECK(found.smaller_that_fail.back() == failing_below.back());
        const LargestValue all_below =
            find_largest_value(planner, with_value, {.highest = network.highest, .capacity = capacity});
        check_largest(all_below, with_value, fits, can_be, first_failing);
        num_isolated += all_below.value < found.value ? 1 : 0;
        ++num_searches;
        num_in_range += largest && *largest < network.highest ? 1 : 0;
        num_not_monotone += failing_below.empty() ? 0 : 1;
        num_planned += static_cast<int>(found.num_planned);
      }
    }
  INFO(num_searches << " searches, " << num_in_range << " inside the range, " << num_not_monotone
                    << " not monotone, planned " << num_planned << " of " << num_values);
  CHECK(num_searches >= 100);
  CHECK(num_in_range >= 50);
  CHECK(num_not_monotone >= 10);
  CHECK(num_isolated >= 10);
}

namespace {

/// What the first routines of a compiled program allocate, release, and need for scratch, in order: bytes, negative
/// where they are released.
std::vector<std::int64_t> bytes_in_order(const Program& program) {
  std::vector<std::int64_t> bytes;
  const Program::MicroBatch& micro_batch = program.micro_batches.front();
  for (const Routine* routine : {&program.load, &micro_batch.first, &micro_batch.next, &program.update}) {
    for (const Instruction& instruction : routine->instructions) {
      if (instruction.kind == Instruction::Kind::run) continue;
      const std::int64_t num_bytes = program.buffers[instruction.index].num_bytes;
      bytes.push_back(instruction.kind == Instruction::Kind::allocate ? num_bytes : -num_bytes);
    }
  }
  return bytes;
}

std::vector<std::int64_t> bytes_in_order(SizedProgram& program, const DeviceModel& device, std::int64_t batch_size) {
  using Kind = SizedProgram::Instruction::Kind;
  std::vector<std::int64_t> bytes;
  const std::vector<std::int64_t>& workspaces = program.workspaces(device, batch_size);
  for (const auto part : {SizedProgram::load, SizedProgram::first, SizedProgram::next, SizedProgram::update}) {
    for (const SizedProgram::Instruction& instruction : program.part(part)) {
      if (instruction.kind == Kind::run) {
        if (const std::int64_t workspace = workspaces[instruction.index]; workspace > 0)
          bytes.insert(bytes.end(), {workspace, -workspace});
        continue;
      }
      const std::int64_t num_bytes = program.buffers()[instruction.index].at(batch_size);
      bytes.push_back(instruction.kind == Kind::allocate ? num_bytes : -num_bytes);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("what a family says of a batch size between two is what is compiled and planned for it") {
  std::vector<std::unique_ptr<DeviceModel>> devices;
  devices.push_back(std::make_unique<DescribedDevice>(std::int64_t{3} << 20));
  devices.push_back(std::make_unique<JumpingDevice>());
  devices.push_back(std::make_unique<MultiplesDevice>());
  const MachineRates rates = assumed_cpu_rates(1);
  std::mt19937 random(77);
  int num_families = 0, num_programs = 0, num_refused = 0, num_passed = 0, num_passed_that_fail = 0;
  for (int round = 0; round < 12; ++round)
    for (std::size_t n = 0; n < 4; ++n) {  // those whose value is the batch size
      const SearchedNetwork& network = searched_networks[n];
      const std::vector<std::string> set = random_settings(random, network.key, n == 3);
      const std::vector<std::optional<Candidate>> candidates = candidates_of(network, set);
      const auto low = 1 + static_cast<std::int64_t>(random() % 40);
      const auto high = low + 1 + static_cast<std::int64_t>(random() % 20);
      const DeviceModel& device = *devices[random() % devices.size()];
      std::string words;
      for (const std::string& word : set) words += " " + word;
      INFO(network.name << "," << words << ", " << low << " to " << high << ", device " << device.name());
      if (!candidates[low] || !candidates[high]) continue;
      const std::unique_ptr<BatchFamily> family = BatchFamily::make(*candidates[low], *candidates[high], device);
      if (!family) continue;
      ++num_families;
      std::optional<SizedProgram> sized =
          SizedProgram::make(compile(candidates[low]->experiment, candidates[low]->data, device),
                             compile(candidates[high]->experiment, candidates[high]->data, device));
      REQUIRE(sized);
      Planner planner(device, rates);
      for (std::int64_t value = low; value <= high; ++value) {
        const Candidate& candidate = *candidates[value];
        Program compiled;
        try {
          compiled = compile(candidate.experiment, candidate.data, device);
        } catch (const DeviceError&) {
          continue;  // an odd last batch that the device has nothing for
        } catch (const ConfigError&) {
          continue;  // fewer samples than ranks
        }
        const std::int64_t own = compiled.micro_batches.front().batch_size;
        const bool is_equal = bytes_in_order(compiled) == bytes_in_order(*sized, device, own);
        const std::int64_t peak = plan_one(device, candidate, unlimited_capacity).peak_reserved;
        for (const std::int64_t capacity : {peak, peak - 1, peak - (std::int64_t{4} << 20), peak / 2}) {
          const bool may_fit = family->may_fit(candidate, capacity);
          // Where the choice of what is computed again is another one, all may fit.
          if (!may_fit || capacity == peak / 2) CHECK((is_equal || may_fit));
          const bool fits = planner.fits(candidate.experiment, candidate.data, capacity);
          if (fits) CHECK(may_fit);
          num_refused += may_fit ? 0 : 1;
          num_passed += may_fit ? 1 : 0;
          num_passed_that_fail += may_fit && !fits ? 1 : 0;
        }
        num_programs += is_equal ? 1 : 0;
      }
    }
  INFO(num_families << " families, " << num_programs << " programs, " << num_refused << " refused, " << num_passed
                    << " passed, of which " << num_passed_that_fail << " fail");
  CHECK(num_families >= 25);
  CHECK(num_programs >= 200);
  CHECK(num_refused >= 400);
  CHECK(num_passed >= 100);
}

TEST_CASE("a family says nothing of batch sizes whose convolutions have statistics where those at its ends have none") {
  /// Forward convolutions need no scratch with statistics, which there are for multiples of 8, and much without.
  class StatisticsDevice : public DescribedDevice {
   public:
    std::int64_t workspace_bytes(const Op& op) const override {
      const bool needs_scratch = op.kind == OpKind::conv2d && !attributes_of<Conv2dAttributes>(op).statistics;
      return needs_scratch ? std::int64_t{64} << 20 : 0;
    }
    bool convolution_statistics(const Op& conv2d) const override { return conv2d.inputs[0].shape[0] % 8 == 0; }
  };
  const SearchedNetwork network = {"",
                                   "[conv2d: {out: 16, kernel: 3, padding: 1, bias: false}, batchnorm2d, relu, "
                                   "global_avgpool, linear: {out: 10}]",
                                   "train.batch_size", 61, Shape{16, 16, 3}};
  const std::vector<std::optional<Candidate>> candidates =
      candidates_of(network, {"data.drop_last=true", "memory.allocator=caching"});
  const StatisticsDevice device;
  const std::unique_ptr<BatchFamily> family = BatchFamily::make(*candidates[9], *candidates[21], device);
  REQUIRE(family);
  for (std::int64_t value = 9; value <= 21; ++value) {
    INFO("batch size " << value);
    const std::int64_t peak = plan_one(device, *candidates[value], unlimited_capacity).peak_reserved;
    CHECK(family->may_fit(*candidates[value], peak));
    CHECK(family->may_fit(*candidates[value], peak / 4) == (value % 8 == 0));
  }
}

TEST_CASE("where nothing is proven and the values are too many, the result says how many were left out",
          "[exhaustive]") {
  // A batch for evaluation of up to a billion samples, of which there are 31: all of them fit or none.
  const DescribedDevice device;
  const DataDescription data = described_data({5000}, 10, 61, 1000000000);
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [5000], classes: 10, samples: 61, validation_samples: 31}\n"
      "model: {layers: [{linear: {out: 900}}, relu, {linear: {out: 10}}]}\ntrain: {batch_size: 8}\n",
      "test.yaml");
  const WithValue with_value = [&](std::int64_t value) -> std::optional<Candidate> {
    Candidate candidate{experiment, data};
    candidate.experiment.train.eval_batch_size = value;
    return candidate;
  };
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  const std::int64_t capacity = std::int64_t{256} << 20;
  const HighestValue found = find_highest_value(planner, with_value, 1, 1000000000, capacity);
  REQUIRE(found.value);
  CHECK(planner.fits(with_value(*found.value)->experiment, data, capacity));
  CHECK_FALSE(planner.fits(with_value(*found.value + 1)->experiment, data, capacity));
  CHECK(found.num_unknown > 0);
}

TEST_CASE("train.batch_size: auto is the largest batch up to which every one fits, and 1 where 1 does not") {
  const DescribedDevice device;
  const DataDescription data = described_data({5000}, 10, 61, 31);
  for (const std::string further : {"", "memory.allocator=planned", "train.accumulation_steps=2"}) {
    std::vector<std::string> set = {"train.batch_size=auto"};
    if (!further.empty()) set.push_back(further);
    const Experiment experiment = parse_experiment(
        "data: {type: synthetic, shape: [5000], classes: 10, samples: 61, validation_samples: 31}\n"
        "model: {layers: [{linear: {out: 90000}}, relu, {linear: {out: 10}}]}\n",
        "test.yaml", set);
    for (const std::int64_t capacity_mib : {1, 3440, 3450, 3460, 5180, 100000}) {
      INFO(further << ", capacity " << capacity_mib << " MiB");
      const std::int64_t capacity = capacity_mib << 20;
      std::int64_t largest = 1;
      for (std::int64_t batch_size = 1; batch_size <= data.num_train; ++batch_size) {
        Candidate candidate{experiment, data};
        candidate.experiment.train.batch_size = batch_size;
        if (!plan_one(device, candidate, capacity).fits) break;
        largest = batch_size;
      }
      const Experiment settled = settle_experiment(experiment, data, device, capacity);
      CHECK(settled.train.batch_size == largest);
      CHECK(settled.train.accumulation_steps == experiment.train.accumulation_steps);
      if (capacity_mib == 1) CHECK(largest == 1);
      if (capacity_mib == 100000) CHECK(largest == data.num_train);
    }
  }
}

TEST_CASE(
    "with auto for both, the batch is one for which checkpointing finds a way where keeping everything does not") {
  const DescribedDevice device;
  const DataDescription data = described_data({100, 100, 3}, 10, 61);
  const std::string text =
      "data: {type: synthetic, shape: [100, 100, 3], classes: 10, samples: 61}\n"
      "model: {layers: [{repeat: {times: 4, layers: [{conv2d: {out: 32, kernel: 3, padding: 1}}, tanh]}}, "
      "global_avgpool, {linear: {out: 10}}]}\n";
  const std::int64_t capacity = std::int64_t{150} << 20;
  const auto settled = [&](const std::string& checkpointing) {
    return settle_experiment(
        parse_experiment(text, "test.yaml", {"train.batch_size=auto", "train.checkpointing=" + checkpointing}), data,
        device, capacity);
  };
  const Experiment kept = settled("off"), both = settled("auto");
  CHECK(both.train.batch_size.number() > kept.train.batch_size.number());
  CHECK(plan_one(device, {both, data}, capacity).fits);
}

TEST_CASE("values below the largest that cannot be are not told as values that do not fit") {
  const DescribedDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  Planner planner(device, rates);
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  // Groups divide the outputs, by a rule, and the inputs, or else there is no such layer; the fewer, the more weights.
  const WithValue with_groups = [&](std::int64_t groups) -> std::optional<Candidate> {
    if (720 % groups != 0) return std::nullopt;
    return Candidate{
        parse_experiment("data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\n"
                         "model: {layers: [{conv2d: {out: 144, kernel: 3}}, {conv2d: {out: 720, kernel: 3, "
                         "groups: " +
                             std::to_string(groups) +
                             "}}, flatten, {linear: {out: 10}}]}\ntrain: {batch_size: 2}\n"
                             "memory: {allocator: planned}\n",
                         "test.yaml"),
        data};
  };
  const auto plan = [&](std::int64_t groups) {
    const std::optional<Candidate> candidate = with_groups(groups);
    return planner.plan(candidate->experiment, candidate->data, unlimited_capacity);
  };
  REQUIRE(plan(120).problem.has_value());
  const std::int64_t capacity = plan(8).peak_reserved;
  REQUIRE(capacity < plan(4).peak_reserved);
  const HighestValue found = find_highest_value(planner, with_groups, 1, 720, capacity);
  CHECK(found.value == 144);
  CHECK_FALSE(found.smaller_that_fail.empty());
  for (const std::int64_t value : found.smaller_that_fail) {
    INFO(value);
    CHECK_FALSE(plan(value).problem.has_value());
    CHECK(plan(value).peak_reserved > capacity);
  }
}

}  // namespace trainer
