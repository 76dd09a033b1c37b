#include <cmath>
#include <numeric>

#include "datasets/batch_reader.h"
#include "engine/graph/graph_builder.h"
#include "engine/memory/caching_allocator.h"
#include "engine/ops/op_definition.h"
#include "engine/program/schedule.h"
#include "engine/train/executor.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

// What samples are made of, beyond an image or a row of features and its class: Note [Fields of a batch].

namespace {

constexpr std::int64_t num_sequences = 12, num_positions = 5, num_features = 3, num_token_classes = 4;

float feature(std::int64_t row, std::int64_t f) { return std::sin(static_cast<float>(7 * row + 3 * f)); }
std::int32_t token_class(std::int64_t row) {
  return feature(row, 0) > 0.3F ? 0 : feature(row, 1) > 0 ? 1 : feature(row, 2) > 0 ? 2 : 3;
}

/// `rows` positions after one another, as sequences of so many positions, or as samples of one.
LoadedData tokens(std::int64_t positions) {
  std::vector<std::byte> inputs, targets;
  const auto append = [](std::vector<std::byte>& to, auto value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    to.insert(to.end(), bytes, bytes + sizeof(value));
  };
  const std::int64_t num_rows = num_sequences * num_positions;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t f = 0; f < num_features; ++f) append(inputs, feature(row, f));
    append(targets, token_class(row));
  }
  const bool is_sequence = positions > 1;
  const TensorType sample{DType::f32, is_sequence ? Shape{positions, num_features} : Shape{num_features}};
  const TensorType target{DType::i32, is_sequence ? Shape{positions} : Shape{}};
  LoadedData data;
  data.train = data.validation = std::make_shared<MemoryDataset>(sample, target, inputs, targets);
  data.description.inputs.emplace_back().type = sample;
  data.description.target = target;
  data.description.num_outputs = num_token_classes;
  data.description.num_train = data.description.num_validation = num_rows / positions;
  return data;
}

RecordingSink trained(std::int64_t positions, const std::vector<std::string>& further) {
  const OutputFolder folder;
  const std::string sequences_a_batch = std::to_string(20 / positions);
  std::vector<std::string> set = {"train.batch_size=" + sequences_a_batch,
                                  "train.eval_batch_size=" + sequences_a_batch};
  set.insert(set.end(), further.begin(), further.end());
  TestRun run(R"(
name: tokens
data: {type: synthetic, shape: [3], classes: 4, samples: 60, shuffle: false}
model: {layers: [linear: {out: 33}, gelu, linear: {out: 4}]}
optimizer: {type: adam, lr: 0.05}
train: {steps: 12, eval_every: 3}
)",
              folder.path(), set);
  run.data = tokens(positions);
  REQUIRE(run() == RunStatus::done);
  return run.events;
}

/// Two inputs that are added, held against the targets.
Graph sum_of_two_inputs(std::int64_t num_pairs, std::int64_t width) {
  Graph graph;
  graph.mode = GraphMode::evaluation;
  graph.batch_size = num_pairs;
  GraphBuilder builder(graph, Initialization::kaiming_uniform, 0);
  const TensorType type{DType::f32, {num_pairs, width}};
  builder.begin_layer("input", "f32", {}, -1);
  graph.inputs = {builder.add_value(type, "left", Category::input), builder.add_value(type, "right", Category::input)};
  graph.targets = builder.add_value(type, "targets", Category::input);
  builder.end_layer(graph.inputs.front());
  builder.begin_layer("sum", "add", {}, graph.inputs.front());
  graph.prediction = builder.apply(add_op(type), graph.inputs)[0];
  builder.end_layer(graph.prediction);
  builder.begin_layer("loss", "mse", {}, graph.prediction);
  graph.loss_statistics = builder.add_value({DType::f64, {num_loss_statistics}}, "statistics", Category::temporary);
  builder.apply(mse_op(type, type), {graph.prediction, graph.targets, graph.loss_statistics});
  builder.end_layer(-1);
  return graph;
}

/// Sample i has two inputs of i, 2i, … and of the same numbers times a hundred; its target is their sum plus i.
class PairDataset final : public Dataset {
 public:
  static constexpr std::int64_t width = 6;
  PairDataset() : Dataset({{DType::f32, {width}}, {DType::f32, {width}}}, {DType::f32, {width}}) {}
  std::int64_t size() const override { return 10; }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    REQUIRE(fields.size() == 3);
    std::vector<float> values(width);
    for (const float factor : {1.0F, 100.0F, 101.0F}) {
      for (std::int64_t i = 0; i < width; ++i) values[i] = factor * static_cast<float>(index * (i + 1));
      const bool is_target = factor > 100;
      if (is_target)
        for (float& value : values) value += static_cast<float>(index);
      std::byte* const field = fields[factor == 1 ? 0 : is_target ? 2 : 1];
      std::memcpy(field, values.data(), values.size() * sizeof(float));
    }
  }
  void read_classes(std::int64_t, std::int32_t*) const override { FAIL("there are no classes"); }
};

}  // namespace

TEST_CASE("a model with a target at each position trains as one whose samples are the positions") {
  for (const std::vector<std::string>& further :
       {std::vector<std::string>{},
        {"train.accumulation_steps=3"},
        {"loss={type: cross_entropy, class_weights: [1, 0.5, 2, 0.25], label_smoothing: 0.1}"},
        {"memory.chunked_loss=7"},
        {"train.amp=bf16"}}) {
    INFO((further.empty() ? "" : further[0]));
    const RecordingSink positions = trained(1, further), sequences = trained(num_positions, further);
    REQUIRE(sequences.steps.size() == 12);
    for (std::size_t i = 0; i < sequences.steps.size(); ++i) CHECK(sequences.steps[i].loss == positions.steps[i].loss);
    REQUIRE(sequences.evaluations.size() == positions.evaluations.size());
    for (std::size_t i = 0; i < sequences.evaluations.size(); ++i) {
      CHECK(sequences.evaluations[i].loss == positions.evaluations[i].loss);
      CHECK(sequences.evaluations[i].accuracy == positions.evaluations[i].accuracy);
    }
    CHECK(sequences.steps.back().loss < 0.8 * sequences.steps.front().loss);
  }
}

TEST_CASE("the fields of a batch reach the inputs of a model that has several") {
  const PairDataset dataset;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const std::int64_t num_pairs = 5;
  const Graph graph = sum_of_two_inputs(num_pairs, PairDataset::width);
  Program program;
  program.layers = graph.layers;
  Scheduler scheduler(program, *device);
  program.loss_statistics =
      scheduler.add_buffer("loss.statistics", 0, Category::temporary, graph.values[graph.loss_statistics].type);
  program.load.instructions.push_back({Instruction::Kind::allocate, program.loss_statistics, 0, Phase::load});
  program.evaluations.push_back(scheduler.schedule_evaluation(graph, "evaluate"));
  REQUIRE(program.evaluations.front().fields.size() == 3);

  const std::unique_ptr<MemorySource> source = device->make_memory_source(std::int64_t{4} << 20);
  CachingAllocator allocator(*source);
  Executor executor(program, *device, allocator);
  executor.run(program.load, {});
  const Sampler sampler({.num_samples = dataset.size(), .batch_size = num_pairs, .shuffle = false});
  BatchReader reader(dataset, sampler, {.endless = false});
  std::int64_t first = 0;
  while (const HostBatch* batch = reader.next()) {
    executor.clear(program.loss_statistics);
    executor.run(program.evaluations.front(), {}, batch);
    std::array<double, num_loss_statistics> statistics{};
    executor.read(program.loss_statistics, statistics.data());
    double sum = 0;  // each number of sample i is i too small
    for (std::int64_t i = first; i < first + num_pairs; ++i) sum += static_cast<double>(PairDataset::width * i * i);
    CHECK(statistics[loss_sum] == Approx(sum).epsilon(1e-6));
    CHECK_FALSE(executor.has_leftovers());
    first += num_pairs;
  }
  CHECK(first == dataset.size());
  executor.release_all();
}

TEST_CASE("an input that no layer reads is told, as are indices that a layer would take for numbers") {
  Experiment experiment = parse_experiment(small_experiment, "test.yaml");
  LoadedData data = load_data(experiment.data, experiment.seed);
  data.description.inputs.push_back({.name = "mask", .type = {DType::f32, Shape{6}}, .mean = {}, .std = {}});
  CHECK_THROWS_WITH(build_graph(experiment, data.description, 5, GraphMode::training),
                    Catch::Contains("no layer reads the input 'mask' of the data"));
  data.description.inputs = {{.type = {DType::i32, Shape{6, 6, 2}}, .mean = {}, .std = {}}};
  CHECK_THROWS_WITH(build_graph(experiment, data.description, 5, GraphMode::training),
                    Catch::Contains("layer '0': conv2d takes numbers; its input are the indices"));
}

TEST_CASE("logits that do not stand beside the targets are told") {
  const TensorType logits{DType::f32, {2, 5, 4}};
  CHECK_THROWS_WITH(cross_entropy_op(logits, {DType::i32, {2, 6}}, {}),
                    Catch::Contains("for targets of 2×6, one logit a class for each of them; the model's output is"));
  CHECK_THROWS_WITH(cross_entropy_op(logits, {DType::i32, {2}}, {}), Catch::Contains("put flatten or global_avgpool"));
  CHECK_NOTHROW(cross_entropy_op(logits, {DType::i32, {2, 5}}, {}));
}
