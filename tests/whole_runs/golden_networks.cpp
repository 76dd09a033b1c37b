#include "tests/whole_runs/device_checks.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "datasets/memory_dataset.h"
#include "engine/train/files/safetensors.h"
#include "tests/source_folder.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

std::vector<std::byte> read_tensor(const SafetensorsFile& file, const char* name, TensorType& type) {
  const std::ptrdiff_t position = file.find(name);
  REQUIRE(position >= 0);
  type = file.tensors()[static_cast<std::size_t>(position)].type;
  std::vector<std::byte> bytes(static_cast<std::size_t>(type.num_bytes()));
  file.read(static_cast<std::size_t>(position), bytes.data());
  return bytes;
}

TensorType without_batch(const TensorType& type) {
  return {type.dtype, Shape(std::span<const std::int64_t>(type.shape.begin() + 1, type.shape.end()))};
}

bool holds_classes(const std::string& folder) {
  const SafetensorsFile file(folder + "/data.safetensors");
  return file.tensors()[static_cast<std::size_t>(file.find("targets"))].type.dtype == DType::i32;
}

/// The dataset PyTorch was trained on, for training and for the evaluation at the end.
LoadedData golden_data(const std::string& folder, const Experiment& experiment) {
  const SafetensorsFile file(folder + "/data.safetensors");
  TensorType inputs, targets;
  const std::vector<std::byte> samples = read_tensor(file, "inputs", inputs);
  const std::vector<std::byte> labels = read_tensor(file, "targets", targets);
  LoadedData data;
  data.train = std::make_shared<MemoryDataset>(without_batch(inputs), without_batch(targets), samples, labels);
  data.validation = data.train;
  DataDescription& description = data.description;
  description = describe_data(experiment.data, experiment.seed);
  CHECK(description.inputs.front().type == without_batch(inputs));
  description.target = without_batch(targets);
  description.num_outputs = description.categorical() ? experiment.data.classes : description.target.num_elements();
  description.num_train = description.num_validation = inputs.shape[0];
  return data;
}

}  // namespace

void check_golden_networks(Device& device) {
  const std::string root = source_folder() + "/tests/golden";
  int num_networks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (!entry.is_directory()) continue;
    ++num_networks;
    const std::string folder = entry.path().string();
    INFO(folder);
    const nlohmann::json expected = nlohmann::json::parse(file_bytes(folder + "/expected.json"));
    const OutputFolder output;
    std::vector<std::string> overrides = {"output=" + output.path("run"), "train.eval_every=1000"};
    if (!holds_classes(folder)) overrides.emplace_back("data.target_type=numeric");
    Experiment experiment = load_experiment(folder + "/config.yaml", overrides);
    const LoadedData data = golden_data(folder, experiment);
    TrainingOptions options;
    experiment.weights.file = folder + "/initial.safetensors";
    for (LossConfig& loss : experiment.losses)
      if (!loss.feature.weights.file.empty()) loss.feature.weights.file = folder + "/" + loss.feature.weights.file;
    Interruption interruption;
    RecordingSink events;
    REQUIRE(run_training(experiment, data, device, options, interruption, events) == RunStatus::done);

    // Rounding: how far PyTorch's own float32 ends from its float64. Another order of summation is allowed ten times
    // that, and one part in 100,000.
    const double loss_rounding = 10 * expected.at("rounding").at("loss").get<double>();
    const double weight_rounding = 10 * expected.at("rounding").at("weight").get<double>();
    const auto losses = expected.at("losses").get<std::vector<double>>();
    const auto rates = expected.at("learning_rates").get<std::vector<double>>();
    REQUIRE(events.steps.size() == losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      INFO("step " << i + 1);
      CHECK(events.steps[i].loss == Approx(losses[i]).margin(loss_rounding).epsilon(1e-5));
      CHECK(events.steps[i].learning_rate == Approx(rates[i]).epsilon(1e-9));
      CHECK(events.steps[i].samples == expected.at("samples").at(i).get<std::int64_t>());
    }
    const nlohmann::json& evaluation = expected.at("evaluation");
    REQUIRE(events.evaluations.size() == 1);
    CHECK(events.evaluations[0].loss ==
          Approx(evaluation.at("loss").get<double>()).margin(loss_rounding).epsilon(1e-5));
    CHECK(events.evaluations[0].accuracy.has_value() == evaluation.contains("accuracy"));
    if (evaluation.contains("accuracy")) {
      CHECK(events.evaluations[0].accuracy.value_or(-1) == Approx(evaluation.at("accuracy").get<double>()));
    }

    const SafetensorsFile actual(checkpoint_file(output.path("run"), 20, "model.safetensors"));
    const SafetensorsFile final_weights(folder + "/final.safetensors");
    REQUIRE(actual.tensors().size() == final_weights.tensors().size());
    for (const NamedTensor& tensor : final_weights.tensors()) {
      INFO(tensor.name);
      TensorType type;
      const std::vector<std::byte> wanted = read_tensor(final_weights, tensor.name.c_str(), type);
      const std::vector<std::byte> found = read_tensor(actual, tensor.name.c_str(), type);
      REQUIRE(type == tensor.type);
      double largest_difference = 0;
      for (std::size_t i = 0; i < wanted.size(); i += sizeof(float)) {
        float a = 0, b = 0;
        std::memcpy(&a, wanted.data() + i, sizeof(float));
        std::memcpy(&b, found.data() + i, sizeof(float));
        largest_difference = std::max(largest_difference, std::abs(static_cast<double>(a) - b) - 1e-5 * std::abs(a));
      }
      CHECK(largest_difference <= weight_rounding);
    }
  }
  CHECK(num_networks >= 4);
}

}  // namespace trainer
