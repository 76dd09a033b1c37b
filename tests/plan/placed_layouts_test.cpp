// What the caching allocator fits near the capacity, against PyTorch's rules as tests/memory/reference_allocator.h
// writes them down: there segments may be given back in the middle of a step.

#include <catch2/catch.hpp>
#include <random>

#include "engine/config/load_experiment.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/step_routines.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"
#include "tests/memory/reference_allocator.h"

namespace trainer {

namespace {

constexpr std::int64_t segment_unit = std::int64_t{2} << 20;

struct PlacedCase {
  PlacedCase(Experiment asked, DataDescription described)
      : experiment(std::move(asked)),
        data(std::move(described)),
        program(compile(experiment, data, DescribedDevice(700'000))),
        schedule(experiment, data) {}

  MemoryPlan plan(std::int64_t capacity, PlacedLayouts placed) const {
    return make_memory_plan(program, schedule, capacity, allocator_options(experiment, placed));
  }

  Experiment experiment;
  DataDescription data;
  Program program;
  RunSchedule schedule;
};

bool fits_by_reference(const PlacedCase& example, std::int64_t capacity) {
  test::ReferenceAllocator allocator(capacity, {}, std::nullopt);
  bool fits = true;
  const auto walk = [&](const Routine& routine) {
    for (const Instruction& instruction : routine.instructions) {
      if (!fits || instruction.kind == Instruction::Kind::run) continue;
      if (instruction.kind == Instruction::Kind::release)
        allocator.free(instruction.index);
      else
        fits = allocator.allocate(instruction.index, example.program.buffers[instruction.index].num_bytes).has_value();
    }
  };
  walk(example.program.load);
  for (std::int64_t step = 1; fits && step <= example.schedule.total_steps(); ++step) {
    const RunSchedule::Step shape = example.schedule.step(step);
    for_each_step_routine(example.program, example.schedule, shape,
                          [&](const Routine& routine, bool) { walk(routine); });
    if (!shape.evaluates) continue;
    for_each_evaluation_routine(example.program, example.schedule, [&](const auto& routines, std::int64_t times) {
      for (std::int64_t i = 0; i < times; ++i)
        for (const Routine* const routine : routines) walk(*routine);
    });
  }
  return fits;
}

PlacedCase random_case(std::mt19937& random) {
  const auto pick = [&](int lowest, int highest) {
    return std::to_string(std::uniform_int_distribution<int>(lowest, highest)(random));
  };
  const auto one_of = [&](const std::vector<std::string>& texts) { return texts[random() % texts.size()]; };
  std::string layers;
  const bool has_images = random() % 3 != 0;
  if (has_images) {
    const std::string width = pick(8, 48);
    layers = "[{conv2d: {out: " + width + ", kernel: 3, padding: 1}}, " + one_of({"batchnorm2d, relu", "gelu", "relu"});
    for (int i = 0, count = 1 + static_cast<int>(random() % 3); i < count; ++i)
      layers +=
          one_of({", {residual: {layers: [{conv2d: {out: " + width + ", kernel: 3, padding: 1}}, batchnorm2d, relu]}}",
                  ", {maxpool2d: {kernel: 2}}", ", {conv2d: {out: " + width + ", kernel: 3, padding: 1}}, silu"});
    layers += ", flatten, {linear: {out: 10}}]";
  } else {
    layers = "[{linear: {out: " + pick(200, 4000) + "}}, " +
             one_of({"relu", "gelu, {dropout: {p: 0.3}}", "layernorm"}) + ", {linear: {out: " + pick(200, 4000) +
             "}}, tanh, {linear: {out: 10}}]";
  }
  std::string train = "{batch_size: " + pick(100, 900) + ", steps: 3";
  if (random() % 3 == 0) train += ", eval_batch_size: " + pick(50, 2000);
  if (random() % 5 == 0) train += ", accumulation_steps: 2";
  train += "}";
  const Shape sample = has_images ? Shape{20, 20, 3} : Shape{600};
  return {parse_experiment("data: {type: synthetic, shape: [" + std::string(has_images ? "20, 20, 3" : "600") +
                               "], classes: 10, samples: 2500, validation_samples: 2100}\nmodel: {layers: " + layers +
                               "}\noptimizer: {type: " + one_of({"sgd, momentum: 0.9", "adam"}) + "}\ntrain: " + train +
                               "\nmemory: {allocator: caching}\n",
                           "test.yaml"),
          described_data(sample, 10, 2500, 2100)};
}

struct Fitted {
  int by_reference = 0;  ///< capacities that PyTorch's rules fit
  int not_unplaced = 0;  ///< of these, those for which layouts must be placed
  int with_rest = 0;     ///< of these, those that also take the free rest of persistent buffers' segments
};

/// Over capacities from the peak of live blocks to what is reserved without a bound.
void compare(const PlacedCase& example, int num_capacities, Fitted& fitted) {
  const MemoryPlan unbounded = example.plan(unlimited_capacity, PlacedLayouts::never);
  const std::int64_t lowest = unbounded.peak_allocated / segment_unit, highest = unbounded.peak_reserved / segment_unit;
  for (int i = 0; i <= num_capacities; ++i) {
    const std::int64_t capacity = (lowest + (highest - lowest) * i / num_capacities) * segment_unit;
    INFO(example.experiment.resolved_json << "\ncapacity " << capacity << ", peak " << unbounded.peak_allocated);
    const MemoryPlan plan = example.plan(capacity, PlacedLayouts::where_needed);
    const bool fits_unplaced = example.plan(capacity, PlacedLayouts::never).fits;
    if (fits_unplaced) CHECK(plan.first_placed_step == -1);
    if (plan.fits && !fits_unplaced) CHECK(plan.first_placed_step >= 0);
    if (!fits_by_reference(example, capacity)) continue;
    ++fitted.by_reference;
    if (!plan.fits) {
      const StepMemory& loaded = unbounded.steps.front().memory;
      CHECK(example.plan(capacity + loaded.reserved - loaded.allocated, PlacedLayouts::where_needed).fits);
      ++fitted.with_rest;
    }
    fitted.not_unplaced += fits_unplaced ? 0 : 1;
  }
}

}  // namespace

TEST_CASE("the caching allocator fits what PyTorch's rules fit, under every capacity", "[exhaustive]") {
  std::mt19937 random(11);
  Fitted fitted;
  for (int i = 0; i < 200; ++i) compare(random_case(random), 16, fitted);
  CHECK(fitted.by_reference > 600);
  CHECK(fitted.not_unplaced > 60);
  CHECK(fitted.with_rest * 100 <= fitted.by_reference);
}

TEST_CASE("the caching allocator fits what PyTorch's rules fit of the shipped networks") {
  Fitted fitted;
  for (const char* batch_size : {"300", "900", "1900"})
    for (const char* config : {"mlp", "cnn", "resnet18"}) {
      Experiment experiment =
          load_experiment(TRAINER_SOURCE_DIR "/configs/bench/" + std::string(config) + ".yaml",
                          {"train.batch_size=" + std::string(batch_size), "memory.allocator=caching", "train.steps=3"});
      const DataDescription data = described_data(Shape(std::span(experiment.data.shape)), 10, 5000, 1000);
      compare({std::move(experiment), data}, 30, fitted);
    }
  CHECK(fitted.by_reference > 40);
  CHECK(fitted.not_unplaced > 0);
  CHECK(fitted.with_rest == 0);
}

}  // namespace trainer
