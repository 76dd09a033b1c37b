#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

#include "engine/config/load_experiment.h"
#include "engine/memory/rounding.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "engine/program/prediction.h"
#include "tests/device/described_device.h"
#include "tests/program/live_program.h"

using namespace trainer;

namespace {

/// 256 → 512 → 128 → 4 features.
Experiment predicting_mlp(const std::vector<std::string>& overrides = {}) {
  return parse_experiment(
      "data: {type: synthetic, shape: [256], classes: 4, samples: 64}\n"
      "model: {layers: [{linear: {out: 512, name: one}}, relu, {linear: {out: 128, name: two}}, gelu, "
      "{linear: {out: 4, name: three}}]}\n",
      "mlp.yaml", overrides);
}

constexpr std::int64_t parameter_bytes = 4 * (256 * 512 + 512 + 512 * 128 + 128 + 128 * 4 + 4);

Program compiled(std::int64_t batch, std::int64_t odd, const std::vector<std::string>& overrides = {}) {
  return compile_prediction(predicting_mlp(overrides), described_data(Shape{256}, 4, 64), batch, odd,
                            DescribedDevice());
}

}  // namespace

TEST_CASE("a batch leaves its prediction, and between batches there are parameters alone") {
  const Program program = compiled(32, 7);
  REQUIRE(program.prediction);
  REQUIRE(program.prediction->batches.size() == 2);
  CHECK(program.loss_statistics == -1);
  CHECK(program.micro_batches.empty());
  CHECK(program.evaluations.empty());
  LiveProgram live(program);
  live.walk(program.load);
  CHECK(live.bytes() == parameter_bytes);
  for (const std::int64_t size : {32, 7}) {
    const PredictionRoutines::Batch& batch = program.prediction->batches[size == 32 ? 0 : 1];
    CHECK(batch.batch_size == size);
    CHECK(batch.type == TensorType{DType::f32, Shape{size, 4}});
    CHECK(batch.predict.fields.size() == 1);
    CHECK(batch.predict.num_inputs == 1);
    live.walk(batch.predict);
    CHECK(live.bytes() == parameter_bytes + size * 4 * 4);
    live.walk(batch.release);
    CHECK(live.bytes() == parameter_bytes);
  }
}

TEST_CASE("the peak is parameters and the two largest neighbours") {
  for (const std::int64_t batch : {1, 32, 100}) {
    const MemoryPlan plan = make_prediction_plan(compiled(batch, 0), std::int64_t{1} << 40);
    // Of the first layer and its input (256 and 512 numbers), or it and the second (512 and 128).
    CHECK(plan.peak_requested == parameter_bytes + batch * 4 * (256 + 512));
    REQUIRE(plan.find(2, false) != nullptr);
    CHECK(plan.find(2, false)->allocated == plan.find(0, false)->allocated);
    CHECK(plan.find(3, false) == nullptr);
    CHECK(plan.peak.phase == Phase::eval);
  }
}

TEST_CASE("predicting holds no more than an evaluation of the same batch") {
  const Experiment experiment = predicting_mlp({"train.batch_size=32", "optimizer.type=adamw"});
  const DataDescription data = described_data(Shape{256}, 4, 64, 32);
  const RunSchedule schedule(experiment, data);
  const MemoryPlan run =
      make_memory_plan(compile(experiment, data, DescribedDevice()), schedule, std::int64_t{1} << 40);
  const MemoryPlan plan = make_prediction_plan(compiled(32, 0), std::int64_t{1} << 40);
  // The optimizer's two moments are gone.
  CHECK(plan.peak_requested <= run.peak_requested - 2 * parameter_bytes);
}

TEST_CASE("an odd last batch is planned behind the whole one") {
  const MemoryPlan plan = make_prediction_plan(compiled(32, 7), std::int64_t{1} << 40);
  REQUIRE(plan.find(4, false) != nullptr);
  CHECK(plan.find(3, false)->peak_requested == parameter_bytes + 7 * 4 * (256 + 512));
  CHECK(plan.find(1, false)->peak_requested == parameter_bytes + 32 * 4 * (256 + 512));
}

TEST_CASE("parameters that products read in 16 bit have no master") {
  const Program program = compiled(8, 0, {"train.amp=bf16"});
  std::int64_t num_bytes = 0;
  for (const BufferId buffer : program.parameter_buffers) num_bytes += program.buffers[buffer].num_bytes;
  CHECK(num_bytes < parameter_bytes * 6 / 10);
  CHECK(program.refresh.instructions.empty());
  CHECK(std::all_of(program.copy_buffers.begin(), program.copy_buffers.end(), [](BufferId copy) { return copy < 0; }));
}

TEST_CASE("places of a planned segment keep the prediction from what comes before its release") {
  for (const std::int64_t odd : {0, 7}) {
    const Program program = compiled(32, odd);
    REQUIRE(program.placement);
    const MemoryPlan plan = make_prediction_plan(program, std::int64_t{1} << 40);
    CHECK(plan.fits);
    CHECK(plan.peak_reserved == program.placement->segment_bytes);
    CHECK(plan.peak_requested == parameter_bytes + 32 * 4 * (256 + 512));
  }
}

TEST_CASE("a caching allocator is taken where it is asked for") {
  const Program program = compiled(32, 7, {"memory.allocator=caching"});
  CHECK(!program.placement);
  CHECK(make_prediction_plan(program, std::int64_t{1} << 40).peak_requested == parameter_bytes + 32 * 4 * (256 + 512));
}

TEST_CASE("a capacity below the peak is told to be too small, with who holds it") {
  const MemoryPlan plan = make_prediction_plan(compiled(32, 0), parameter_bytes);
  CHECK(!plan.fits);
  REQUIRE(plan.failure);
}
