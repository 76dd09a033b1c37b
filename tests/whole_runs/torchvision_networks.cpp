#include "tests/whole_runs/torchvision_networks.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "datasets/memory_dataset.h"
#include "engine/ops/loss_statistics.h"
#include "engine/plan/step_routines.h"
#include "engine/train/files/safetensors.h"
#include "engine/train/files/weights_loading.h"
#include "engine/train/fresh_state.h"
#include "engine/train/session.h"
#include "tests/source_folder.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

using Json = nlohmann::json;

// What stands for the number of a tensor where images and labels are made.
constexpr std::uint32_t images_number = 1U << 20, labels_number = (1U << 20) + 1;

/// A word of 32 bits for an element of a tensor: `hashed` of scripts/oracle/torchvision_networks.py.
std::uint32_t hashed(std::uint32_t tensor, std::uint32_t element) {
  std::uint32_t word = element * 2654435761U + (tensor * 40503U + 1U);
  word ^= word >> 16;
  word *= 0x85EBCA6BU;
  word ^= word >> 13;
  word *= 0xC2B2AE35U;
  return word ^ (word >> 16);
}

/// `formula` there.
float formula(std::uint32_t tensor, const std::string& name, const Shape& shape, bool is_norm, std::uint32_t element) {
  const double unit = static_cast<double>(hashed(tensor, element) >> 8) * 0x1p-23 - 1;
  if (shape.rank() > 1) {
    const double fan_in = static_cast<double>(shape.num_elements() / shape[0]);
    return static_cast<float>(std::sqrt(6 / fan_in) * unit);
  }
  if (name.ends_with("running_var")) return static_cast<float>(1 + 0.5 * unit);
  if (is_norm && name.ends_with(".weight")) return static_cast<float>(1 + 0.2 * unit);
  if (is_norm && name.ends_with(".bias"))
    return static_cast<float>((unit < 0 && name.ends_with("bn1.bias") ? -2.5 : 2.5) + 0.1 * unit);
  return static_cast<float>(0.1 * unit);
}

std::vector<NamedTensor> tensors_of(const Json& golden) {
  std::vector<NamedTensor> tensors;
  for (const Json& entry : golden.at("tensors")) {
    const auto dims = entry.at(1).get<std::vector<std::int64_t>>();
    tensors.push_back({entry.at(0), {DType::f32, Shape(std::span<const std::int64_t>(dims))}});
  }
  return tensors;
}

void write_formula_weights(const std::string& path, const std::vector<NamedTensor>& tensors) {
  SafetensorsWriter writer(path, tensors);
  const auto is_vector = [&](const std::string& name) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const NamedTensor& each) { return each.name == name && each.type.shape.rank() == 1; });
  };
  std::vector<float> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, type] = tensors[i];
    values.resize(static_cast<std::size_t>(type.num_elements()));
    const bool is_norm = is_vector(name.substr(0, name.rfind('.')) + ".weight");
    for (std::size_t element = 0; element < values.size(); ++element)
      values[element] =
          formula(static_cast<std::uint32_t>(i), name, type.shape, is_norm, static_cast<std::uint32_t>(element));
    writer.append(values.data(), type.num_bytes());
  }
  writer.finish();
}

LoadedData formula_data(const Json& golden, const Experiment& experiment) {
  const auto dims = golden.at("images").get<std::vector<std::int64_t>>();
  const TensorType image{DType::u8, Shape{dims[1], dims[2], dims[3]}};
  std::vector<std::byte> samples(static_cast<std::size_t>(dims[0] * image.num_bytes()));
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i] = static_cast<std::byte>(hashed(images_number, static_cast<std::uint32_t>(i)) >> 24);
  LoadedData data;
  data.description = describe_data(experiment.data, experiment.seed);
  REQUIRE(data.description.inputs.front().type == image);
  REQUIRE(data.description.target.dtype == DType::i32);
  const auto num_labels = static_cast<std::uint32_t>(dims[0] * data.description.target.num_elements());
  std::vector<std::byte> labels(num_labels * sizeof(std::int32_t));
  for (std::uint32_t i = 0; i < num_labels; ++i) {
    const auto label = static_cast<std::int32_t>(hashed(labels_number, i) % golden.at("classes").get<std::uint32_t>());
    std::memcpy(labels.data() + i * sizeof(label), &label, sizeof(label));
  }
  data.train = data.validation =
      std::make_shared<MemoryDataset>(image, data.description.target, std::move(samples), std::move(labels));
  return data;
}

/// A run of one step from those weights. What is saved as momentum is the gradient, and no weight moves.
std::string config_of(const Json& golden, const std::string& weights) {
  const auto dims = golden.at("images").get<std::vector<std::int64_t>>();
  Json data = {{"type", "synthetic"},
               {"shape", {dims[1], dims[2], dims[3]}},
               {"classes", golden.at("classes")},
               {"samples", dims[0]},
               {"validation_samples", dims[0]},
               {"shuffle", false},
               {"normalize", {{"mean", 0.5}, {"std", 0.25}}}};
  if (!golden.at("targets").empty()) data["target_shape"] = golden.at("targets");
  const Json config = {{"data", data},
                       {"model", golden.at("model")},
                       {"weights", {{"file", weights}}},
                       {"optimizer", {{"type", "sgd"}, {"lr", 0}, {"momentum", 1e-38}}},
                       {"train", {{"batch_size", dims[0]}, {"eval_every", 1000}}}};
  return config.dump();
}

/// Holds what is found against what PyTorch found, by name.
class GoldenComparison {
 public:
  explicit GoldenComparison(const Json& golden) : golden_(golden) {}

  void compare(const std::string& what, const std::vector<double>& found) {
    const auto exact = golden_.at("exact").at(what).get<std::vector<double>>();
    const double allowed = golden_.at("allowed").at(what).get<double>();
    INFO(what);
    REQUIRE(found.size() == exact.size());
    ++num_compared_;
    double farthest = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double distance = std::abs(found[i] - exact[i]);
      farthest = std::isnan(distance) ? INFINITY : std::max(farthest, distance);
    }
    CHECK(farthest <= allowed);
  }

  /// A tensor's norm and the elements that the golden names, or all of a small one.
  template <typename Number>
  void compare_tensor(const std::string& what, const std::vector<Number>& tensor) {
    if (!golden_.at("places").contains(what)) {
      compare(what, {tensor.begin(), tensor.end()});
      return;
    }
    double squares = 0;
    for (const double value : tensor) squares += value * value;
    std::vector<double> found = {std::sqrt(squares)};
    for (const auto place : golden_.at("places").at(what).get<std::vector<std::size_t>>())
      found.push_back(tensor.at(place));
    compare(what, found);
  }

  std::size_t num_compared() const { return num_compared_; }

 private:
  const Json& golden_;
  std::size_t num_compared_ = 0;
};

/// What the loss reads.
class LogitsObserver final : public CallObserver {
 public:
  explicit LogitsObserver(Executor& executor) : executor_(executor) {}

  void before_call(const OpCall& call) override {
    if (!name_of(call.op.kind).starts_with("cross_entropy") || !logits.empty()) return;
    std::vector<float> values(static_cast<std::size_t>(call.op.inputs.front().num_elements()));
    executor_.read(call.inputs.front(), values.data());
    logits.assign(values.begin(), values.end());
  }
  bool after_call(const OpCall&, const LiveBuffers&) override { return true; }

  std::vector<double> logits;

 private:
  Executor& executor_;
};

/// Logits and loss of one forward pass in each mode.
void compare_forward_passes(Device& device, const Experiment& experiment, const LoadedData& data,
                            GoldenComparison& comparison) {
  constexpr std::int64_t capacity = std::int64_t{8} << 30;
  const CompiledExperiment compiled = compile_experiment(experiment, data.description, device, capacity);
  Session session(compiled, data, device, capacity);
  Executor& executor = session.executor();
  load_fresh_state(executor, experiment);
  const WeightFiles files(experiment.weights.file);
  const WeightsMatch match = match_weights(experiment.weights, files, compiled.program);
  require_match(match);
  PieceMemory memory(most_piece_bytes);
  load_weights(match, files, executor, memory);
  BatchReader reader = session.read_validation();
  const HostBatch* batch = reader.next();
  REQUIRE(batch != nullptr);
  StepScalars scalars;
  scalars.gradient_scale = 1.0F / static_cast<float>(batch->num_samples);
  for (const bool trains : {false, true}) {
    const std::string mode = trains ? "train" : "eval";
    LogitsObserver observer(executor);
    executor.clear(compiled.program.loss_statistics);
    const Routine& routine = trains ? micro_batch_of(compiled.program, batch->num_samples).first
                                    : evaluation_of(compiled.program, batch->num_samples);
    executor.run(routine, scalars, batch, &observer);
    comparison.compare_tensor(mode + " logits", observer.logits);
    executor.release_transient();
  }
}

}  // namespace

void check_torchvision_network(Device& device, const std::string& name) {
  INFO(name);
  const Json golden = Json::parse(file_bytes(source_folder() + "/tests/golden/torchvision_" + name + ".json"));
  const std::vector<NamedTensor> tensors = tensors_of(golden);
  const OutputFolder folder;
  const std::string weights = folder.path("weights.safetensors");
  write_formula_weights(weights, tensors);
  const auto experiment_with = [&](const std::string& steps, const std::string& output) {
    return parse_experiment(config_of(golden, weights), "torchvision.yaml",
                            {"train.steps=" + steps, "output=" + folder.path(output)});
  };
  const Experiment experiment = experiment_with("1", "run");
  const LoadedData data = formula_data(golden, experiment);
  GoldenComparison comparison(golden);
  compare_forward_passes(device, experiment, data, comparison);

  const auto run = [&](const Experiment& of) {
    Interruption interruption;
    RecordingSink events;
    REQUIRE(run_training(of, data, device, {}, interruption, events) == RunStatus::done);
    return events;
  };
  const RecordingSink evaluated = run(experiment_with("0", "evaluated"));
  comparison.compare("eval loss", {evaluated.evaluations.at(0).loss});
  const RecordingSink trained = run(experiment);
  comparison.compare("train loss", {trained.steps.at(0).loss});
  REQUIRE(trained.starts.at(0).weights.has_value());
  const WeightsMatch& match = *trained.starts[0].weights;
  CHECK(match.count(WeightsStatus::loaded) == static_cast<std::int64_t>(tensors.size()));
  CHECK(match.rows.size() == tensors.size());

  const SafetensorsFile model(checkpoint_file(folder.path("run"), 1, "model.safetensors"));
  const SafetensorsFile optimizer(checkpoint_file(folder.path("run"), 1, "optimizer.safetensors"));
  const auto compare_saved = [&](const SafetensorsFile& file, const std::string& saved, const std::string& what) {
    INFO(saved);
    const std::ptrdiff_t position = file.find(saved);
    REQUIRE(position >= 0);
    const TensorType& type = file.tensors()[static_cast<std::size_t>(position)].type;
    std::vector<float> values(static_cast<std::size_t>(type.num_elements()));
    file.read(static_cast<std::size_t>(position), values.data());
    comparison.compare_tensor(what, values);
  };
  for (const WeightsRow& row : match.rows) {
    const bool is_statistic = row.file_name.find("running_") != std::string::npos;
    if (is_statistic)
      compare_saved(model, row.name, "running " + row.file_name);
    else
      compare_saved(optimizer, row.name + ".momentum", "gradient of " + row.file_name);
  }
  CHECK(comparison.num_compared() == golden.at("exact").size());
}

}  // namespace trainer
