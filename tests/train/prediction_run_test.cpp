#include "engine/train/prediction_run.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/config/load_experiment.h"
#include "engine/cpu/cpu_device.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/make_allocator.h"
#include "engine/program/prediction.h"
#include "engine/train/token_losses.h"

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

/// Of four tokens, each of which alone decides the next one's logits; those behind token 0 are no numbers.
struct TableModel {
  static constexpr std::int64_t length = 4, vocabulary = 4;
  Experiment experiment = parse_experiment(
      "data: {type: synthetic, sequence_length: 4, classes: 4, samples: 8}\n"
      "model: {layers: [{embedding: {num: 4, dim: 4}}, {linear: {out: 4, bias: false}}]}\n",
      "table.yaml");
  DataDescription data;
  std::unique_ptr<Device> device = make_cpu_device(1);
  Program program;
  std::unique_ptr<MemorySource> source = device->make_memory_source(run_capacity_bytes);
  std::unique_ptr<Allocator> allocator;
  std::unique_ptr<Executor> executor;
  std::vector<float> table;

  explicit TableModel(std::int64_t size_of_batch) {
    InputDescription& input = data.inputs.emplace_back();
    input.type = {DType::i32, Shape{length}};
    input.num_indices = vocabulary;
    program = compile_prediction(experiment, data, size_of_batch, 0, *device);
    allocator = make_allocator(program, *source, allocator_options(experiment));
    executor = std::make_unique<Executor>(program, *device, *allocator);
    executor->run(program.load, {});
    for (int i = 0; i < 16; ++i) table.push_back(static_cast<float>(i * 7 % 5) - 1.5F);
    std::fill_n(table.begin(), 4, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> same(16, 0);
    for (std::size_t i = 0; i < 4; ++i) same[i * 5] = 1;
    executor->write(program.parameter_buffers[0], table.data());
    executor->write(program.parameter_buffers[1], same.data());
  }
  ~TableModel() { executor->release_all(); }

  double probability(std::int32_t token, std::int32_t next) const {
    double sum = 0;
    for (std::int32_t i = 0; i < 4; ++i)
      sum += std::exp(static_cast<double>(table[static_cast<std::size_t>(token * 4 + i)]));
    return std::exp(static_cast<double>(table[static_cast<std::size_t>(token * 4 + next)])) / sum;
  }
};

/// The second window of text `bad` has an error, and the text goes on behind it.
class WindowsOfTexts final : public InputStream {
 public:
  WindowsOfTexts(const std::vector<std::vector<std::int32_t>>& texts, std::size_t bad) : texts_(texts), bad_(bad) {}

  bool next(PredictionInput& input) override {
    if (text_ == texts_.size()) return false;
    const std::vector<std::int32_t>& text = texts_[text_];
    const std::size_t count = std::min<std::size_t>(TableModel::length, text.size() - place_);
    std::vector<std::int32_t> tokens(TableModel::length, 0);
    std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(place_), count, tokens.begin());
    input.name = "text " + std::to_string(text_);
    if (text_ == bad_ && place_ == TableModel::length) input.error = "its second window is bad";
    input.bytes.resize(tokens.size() * sizeof(std::int32_t));
    std::memcpy(input.bytes.data(), tokens.data(), input.bytes.size());
    input.window.num_tokens = static_cast<std::int64_t>(count);
    place_ += count;
    if (place_ < text.size()) {
      input.window.behind = text[place_];
    } else {
      ++text_;
      place_ = 0;
    }
    return true;
  }

 private:
  const std::vector<std::vector<std::int32_t>>& texts_;
  std::size_t bad_, text_ = 0, place_ = 0;
};

struct KeptRow {
  std::string name, error;
  std::vector<double> values;
  TextPrediction text;
};

class KeepingSink final : public PredictionSink {
 public:
  bool take(const PredictedInput& predicted) override {
    rows.push_back({predicted.input.name,
                    predicted.input.error,
                    {predicted.values.begin(), predicted.values.end()},
                    predicted.text});
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

TEST_CASE("the windows of a text are one row, whatever batches they fall in, and nothing behind its end counts") {
  // Texts of one and two windows; in between one whose second window of three has an error, and one of token 0, whose
  // logits are no numbers: it fills windows up, too.
  const std::vector<std::vector<std::int32_t>> texts = {
      {1, 2, 3, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {3}, {2, 0, 1, 3, 2}, {3, 2}};
  for (const std::int64_t size : {1, 2, 3, 8}) {
    const TableModel model(size);
    WindowsOfTexts stream(texts, 1);
    InputBatches batches(stream, model.data.inputs.front().type,
                         {.batch_size = size, .num_buffers = 2, .num_workers = 1, .make_memory = {}});
    Predictor predictor(*model.executor);
    const PredictionOutputs outputs =
        describe_outputs(model.experiment, {}, model.program.prediction->batches.front().type);
    REQUIRE(outputs.kind == PredictedKind::next_token);
    KeepingSink sink;
    const PredictionTotals totals = predict_inputs(predictor, batches, outputs, sink);
    CHECK(totals.num_inputs == 5);
    CHECK(totals.num_bad == 2);
    CHECK(totals.num_tokens == 5 + 1 + 2);
    REQUIRE(sink.rows.size() == 5);
    for (std::size_t t = 0; t < texts.size(); ++t) {
      const KeptRow& row = sink.rows[t];
      CHECK(row.name == "text " + std::to_string(t));
      if (t == 1) CHECK(row.error == "its second window is bad");
      if (t == 3) CHECK_THAT(row.error, Contains("not finite"));
      CHECK(row.error.empty() == (t != 1 && t != 3));
      if (!row.error.empty()) continue;
      CHECK(row.text.num_tokens == static_cast<std::int64_t>(texts[t].size()));
      double loss = 0;
      for (std::size_t i = 1; i < texts[t].size(); ++i)
        loss -= std::log(model.probability(texts[t][i - 1], texts[t][i]));
      if (texts[t].size() > 1) loss /= static_cast<double>(texts[t].size() - 1);
      CHECK(row.text.has_loss() == (texts[t].size() > 1));
      CHECK(row.text.loss == Approx(loss).epsilon(1e-12));
      REQUIRE(row.values.size() == 4);
      for (std::int32_t next = 0; next < 4; ++next)
        CHECK(row.values[static_cast<std::size_t>(next)] ==
              Approx(model.probability(texts[t].back(), next)).epsilon(1e-12));
    }
  }
}

TEST_CASE("what tokens cost is the same for any number of threads") {
  PredictionOutputs outputs;
  outputs.kind = PredictedKind::next_token;
  outputs.window_length = 50;
  outputs.num_logits = 20000;
  std::vector<float> numbers(static_cast<std::size_t>(2 * outputs.numbers_of_input()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 2654435761U % 1000) / 100;
  std::vector<PredictionInput> windows(2);
  for (PredictionInput& window : windows) {
    std::vector<std::int32_t> tokens(50);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 397);
    window.bytes.resize(tokens.size() * 4);
    std::memcpy(window.bytes.data(), tokens.data(), window.bytes.size());
  }
  windows[0].window = {.num_tokens = 50, .behind = 19999};
  windows[1].window.num_tokens = 7;
  numbers[57 * 20000] = std::numeric_limits<float>::infinity();  // behind the end of the second
  TokenLosses alone(outputs, 1), many(outputs, 5);
  alone.compute(windows, numbers);
  many.compute(windows, numbers);
  for (const std::size_t w : {0, 1}) {
    const std::span<const double> one = alone.of_window(w, windows[w].window.num_tokens);
    const std::span<const double> other = many.of_window(w, windows[w].window.num_tokens);
    REQUIRE(one.size() == (w == 0 ? 50 : 7));
    CHECK(std::equal(one.begin(), one.end(), other.begin(), other.end()));
    const std::size_t last = one.size() - 1;
    const std::span<const float> logits = std::span<const float>(numbers).subspan((w * 50 + 3) * 20000, 20000);
    CHECK(one[3] == token_loss(logits, 4 * 397));
    CHECK(one[last] == (w == 0 ? token_loss(std::span<const float>(numbers).subspan(last * 20000, 20000), 19999) : 0));
  }
  numbers[3] = std::numeric_limits<float>::quiet_NaN();
  many.compute(windows, numbers);
  CHECK((std::isnan(many.of_window(0, 50)[0]) && std::isfinite(many.of_window(0, 50)[1])));
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
