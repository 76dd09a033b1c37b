#include "tests/whole_runs/prediction_checks.h"

#include <cmath>
#include <numeric>

#include "datasets/batch_reader.h"
#include "engine/graph/tensor_pieces.h"
#include "engine/half.h"
#include "engine/plan/allocator_options.h"
#include "engine/program/prediction.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/fresh_state.h"
#include "engine/train/prediction_model.h"
#include "engine/train/session.h"
#include "tests/whole_runs/evaluated_logits.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {
namespace {

constexpr std::int64_t prediction_capacity = std::int64_t{1} << 30;
constexpr std::int64_t whole_batch = 5, odd_batch = 3;

struct PredictingNetwork {
  const char* name;
  const char* layers;
  std::vector<std::string> overrides;
};

// Sums and ReLUs that go into norms, pooling that takes one, a concatenation that is written in place, dropout.
constexpr const char* class_layers = R"(
    - conv2d: {out: 8, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - residual:
        layers:
          - conv2d: {out: 8, kernel: 3, padding: 1, bias: false}
          - batchnorm2d
    - relu: {name: trunk}
    - conv2d: {out: 4, kernel: 1}
    - relu: {name: side}
    - concat: {from: [trunk, side]}
    - relu6
    - maxpool2d: {kernel: 2}
    - dropout: {p: 0.5}
    - flatten
    - linear: {out: 24}
    - relu
    - linear: {out: 4}
)";
constexpr const char* pixel_layers = R"(
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - groupnorm: {groups: 2}
    - relu
    - conv2d: {out: 4, kernel: 1}
)";

Experiment predicting_experiment(const PredictingNetwork& network, const std::string& output) {
  const std::string yaml =
      std::string(
          "name: predicting\nseed: 3\n"
          "data: {type: synthetic, shape: [8, 6, 3], classes: 4, samples: 9, validation_samples: 8}\n"
          "memory: {chunked_loss: 0}\ntrain: {batch_size: 5, steps: 1}\nmodel:\n  layers:") +
      network.layers;
  std::vector<std::string> overrides = network.overrides;
  overrides.push_back("output=" + output);
  return parse_experiment(yaml, "predicting.yaml", overrides);
}

/// Pixels of all samples, and behind them zeros up to a whole batch more.
std::vector<std::uint8_t> pixels_of(const TensorType& sample) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>((2 * whole_batch) * sample.num_bytes()));
  for (std::size_t i = 0; i < static_cast<std::size_t>((whole_batch + odd_batch) * sample.num_bytes()); ++i)
    pixels[i] = static_cast<std::uint8_t>(i * i * 7 + 13 * i + i / 5);
  return pixels;
}

/// A run's executor with weights of the seed, which are also saved under the experiment's output.
struct SeededRun {
  CompiledExperiment compiled;
  LoadedData data;
  Session session;

  SeededRun(const Experiment& experiment, const DataDescription& description, Device& device)
      : compiled(compile_experiment(experiment, description, device, prediction_capacity)),
        data{nullptr, nullptr, description, {}, {}},
        session(compiled, data, device, prediction_capacity) {
    load_fresh_state(session.executor(), experiment);
    PieceMemory memory(most_piece_bytes);
    TrainingState state;
    state.step = state.pass = state.samples = 1;
    save_checkpoint(experiment.output, state, experiment, "test", saved_tensors_of(session.executor()), memory);
  }
};

/// Logits of evaluations of both batches.
std::vector<float> evaluate_samples(SeededRun& run, const DataDescription& description,
                                    const std::vector<std::uint8_t>& pixels) {
  Executor& executor = run.session.executor();
  const Program& program = run.compiled.program;
  const std::vector<std::int32_t> targets(static_cast<std::size_t>(whole_batch * description.target.num_elements()), 1);
  std::vector<float> logits;
  REQUIRE(program.evaluations.size() == 2);
  std::size_t begin = 0;
  for (const Routine& routine : program.evaluations) {
    const std::array<const std::byte*, 2> fields = {reinterpret_cast<const std::byte*>(pixels.data() + begin),
                                                    reinterpret_cast<const std::byte*>(targets.data())};
    const HostBatch batch{fields, routine.batch_size};
    EvaluatedLogits observer(executor);
    executor.clear(program.loss_statistics);
    executor.run(routine, {}, &batch, &observer);
    executor.release_transient();
    REQUIRE(!observer.logits.empty());
    logits.insert(logits.end(), observer.logits.begin(), observer.logits.end());
    begin += static_cast<std::size_t>(routine.batch_size * description.inputs.front().type.num_bytes());
  }
  return logits;
}

void check_planned(const MemoryPlan& plan, std::int64_t step, Executor& executor) {
  const StepMemory* const planned = plan.find(step, false);
  REQUIRE(planned != nullptr);
  CHECK(executor.memory() == *planned);
}

void check_network(Device& device, const PredictingNetwork& network, bool from_memory) {
  INFO(network.name << (from_memory ? ", by the weights of a run" : ", by a file"));
  const OutputFolder folder;
  const Experiment experiment = predicting_experiment(network, folder.path("run"));
  const DataDescription description = describe_data(experiment.data, experiment.seed);
  const std::vector<std::uint8_t> pixels = pixels_of(description.inputs.front().type);
  auto run = std::make_unique<SeededRun>(experiment, description, device);
  const std::vector<float> evaluated = evaluate_samples(*run, description, pixels);

  const Program program = compile_prediction(experiment, description, whole_batch, odd_batch, device);
  const MemoryPlan plan = make_prediction_plan(program, prediction_capacity, allocator_options(experiment));
  REQUIRE(plan.fits);
  const WeightFiles files(folder.path("run/step-00000001/model.safetensors"));
  const WeightsMatch match = match_weights(experiment.weights, files, program);
  PredictionModel model(program, experiment, device, prediction_capacity);
  if (from_memory)
    model.load(run->session.executor());
  else
    model.load(match, files);
  run.reset();
  check_planned(plan, 0, model.executor());

  Predictor& predictor = model.predictor();
  const auto predict = [&](std::int64_t first, std::int64_t count) {
    const std::byte* const field =
        reinterpret_cast<const std::byte*>(pixels.data()) + first * description.inputs.front().type.num_bytes();
    int num_copied = 0;
    const std::span<const float> logits = predictor.predict({{&field, 1}, count}, [&] { ++num_copied; });
    CHECK(num_copied == 1);
    CHECK(!model.executor().has_leftovers());
    return std::vector<float>(logits.begin(), logits.end());
  };
  const auto is_equal = [&](const std::vector<float>& found, std::int64_t first) {
    const auto begin = evaluated.begin() + first * predictor.numbers_of_input();
    return std::equal(found.begin(), found.end(), begin);
  };
  for (std::int64_t step = 1; step <= 2; ++step) {
    const std::vector<float> found = predict(0, whole_batch);
    REQUIRE(static_cast<std::int64_t>(found.size()) == whole_batch * predictor.numbers_of_input());
    CHECK(is_equal(found, 0));
    check_planned(plan, step, model.executor());
  }
  for (std::int64_t step = 3; step <= 4; ++step) {
    CHECK(is_equal(predict(whole_batch, odd_batch), whole_batch));
    check_planned(plan, step, model.executor());
  }
  // Fewer than a whole batch, and not the odd one: within a whole one.
  CHECK(predict(whole_batch, 2).size() == static_cast<std::size_t>(2 * predictor.numbers_of_input()));
  check_planned(plan, 2, model.executor());
  CHECK(model.executor().run_peak().peak_reserved == plan.peak_reserved);
  CHECK(model.executor().run_peak().peak_allocated == plan.peak_allocated);
}

}  // namespace

void check_predictions(Device& device) {
  for (const bool from_memory : {false, true}) {
    check_network(device, {"classes", class_layers, {}}, from_memory);
    check_network(device, {"classes, caching", class_layers, {"memory.allocator=caching"}}, from_memory);
    check_network(device, {"classes, out of place", class_layers, {"memory.in_place=false"}}, from_memory);
    check_network(device, {"classes in fp16", class_layers, {"train.amp=fp16"}}, from_memory);
    check_network(device, {"classes in bf16", class_layers, {"train.amp=bf16"}}, from_memory);
    check_network(device, {"pixels", pixel_layers, {"data.target_shape=[8, 6]"}}, from_memory);
  }
}

}  // namespace trainer
