#include "engine/train/prediction_run.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/config/load_experiment.h"
#include "engine/cpu/cpu_device.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/make_allocator.h"
#include "engine/program/prediction.h"

using namespace trainer;
using Catch::Contains;

namespace {

constexpr std::int64_t run_batch = 4, run_capacity_bytes = std::int64_t{64} << 20;

/// y = 2 x + 1, by parameters that come from no file.
struct DoublingModel {
  Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [1], target_type: numeric, samples: 8}\n"
      "model: {layers: [{linear: {out: 1, name: fc}}]}\nloss: mse\n",
      "doubling.yaml");
  DataDescription data;
  std::unique_ptr<Device> device = make_cpu_device(1);
  Program program;
  std::unique_ptr<MemorySource> source = device->make_memory_source(run_capacity_bytes);
  std::unique_ptr<Allocator> allocator;
  std::unique_ptr<Executor> executor;

  explicit DoublingModel(std::int64_t odd) {
    data.inputs.emplace_back().type = {DType::f32, Shape{1}};
    program = compile_prediction(experiment, data, run_batch, odd, *device);
    allocator = make_allocator(program, *source, allocator_options(experiment));
    executor = std::make_unique<Executor>(program, *device, *allocator);
    executor->run(program.load, {});
    const float factor = 2, addend = 1;
    executor->write(program.parameter_buffers[0], &factor);
    executor->write(program.parameter_buffers[1], &addend);
  }
  ~DoublingModel() { executor->release_all(); }
};

/// Inputs 0 … count − 1; every third has an error, number 7 is more than f32 holds once it is doubled.
class NumberedInputs final : public InputStream {
 public:
  explicit NumberedInputs(std::int64_t count) : count_(count) {}

  bool next(PredictionInput& input) override {
    if (next_ == count_) return false;
    const float value = next_ == 7 ? std::numeric_limits<float>::max() : static_cast<float>(next_);
    input.name = "input " + std::to_string(next_);
    if (next_ % 3 == 2) input.error = "every third is bad";
    input.bytes.resize(sizeof(value));
    std::memcpy(input.bytes.data(), &value, sizeof(value));
    ++next_;
    return true;
  }

 private:
  std::int64_t count_, next_ = 0;
};

struct KeptRow {
  std::string name, error;
  std::vector<double> values;
};

class KeepingSink final : public PredictionSink {
 public:
  bool take(const PredictedInput& predicted) override {
    rows.push_back({predicted.input.name, predicted.input.error, {predicted.values.begin(), predicted.values.end()}});
    return predicted.input.name != refused;
  }

  std::vector<KeptRow> rows;
  std::string refused;
};

}  // namespace

TEST_CASE("each input has a row, in order, with its numbers or its error") {
  for (const std::int64_t count : {0, 1, 4, 10, 11}) {
    DoublingModel model(count > run_batch ? count % run_batch : 0);
    NumberedInputs stream(count);
    InputBatches batches(stream, model.data.inputs.front().type,
                         {.batch_size = run_batch, .num_buffers = 2, .num_workers = 3, .make_memory = {}});
    Predictor predictor(*model.executor);
    const PredictionOutputs outputs =
        describe_outputs(model.experiment, {}, model.program.prediction->batches.front().type);
    KeepingSink sink;
    sink.refused = "input 3";
    const PredictionTotals totals = predict_inputs(predictor, batches, outputs, sink);
    CHECK(totals.num_inputs == count);
    REQUIRE(static_cast<std::int64_t>(sink.rows.size()) == count);
    std::int64_t num_bad = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const KeptRow& row = sink.rows[static_cast<std::size_t>(i)];
      CHECK(row.name == "input " + std::to_string(i));
      if (i % 3 == 2) {
        CHECK(row.error == "every third is bad");
      } else if (i == 7) {
        CHECK_THAT(row.error, Contains("not finite"));
      } else {
        CHECK(row.error.empty());
        CHECK(row.values == std::vector<double>{2.0 * static_cast<double>(i) + 1});
      }
      num_bad += !row.error.empty() || i == 3 ? 1 : 0;
      CHECK(row.values.empty() == !row.error.empty());
    }
    CHECK(totals.num_bad == num_bad);
  }
}

TEST_CASE("outputs of another model are a mistake of who calls") {
  DoublingModel model(0);
  NumberedInputs stream(2);
  InputBatches batches(stream, model.data.inputs.front().type,
                       {.batch_size = run_batch, .num_buffers = 1, .num_workers = 1, .make_memory = {}});
  Predictor predictor(*model.executor);
  PredictionOutputs outputs;
  outputs.num_logits = 3;
  KeepingSink sink;
  CHECK_THROWS_AS(predict_inputs(predictor, batches, outputs, sink), InternalError);
}
