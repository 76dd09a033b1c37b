#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "engine/program/compile.h"
#include "tests/refusal.h"
#include "tests/train/files/weights_fixture.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// A model of one 1×1 convolution, which a frozen convolution, norm and ReLU judge; `head` is beyond what is compared.
const char* const judged_experiment = R"(
name: judged
seed: 3
data: {type: synthetic, shape: [4, 6, 2], target_type: numeric, target_shape: [4, 6, 2], samples: 12, validation_samples: 4, shuffle: false}
model: {layers: [conv2d: {out: 2, kernel: 1, name: model}]}
loss:
  type: feature
  network:
    layers: [conv2d: {out: 3, kernel: 3, name: conv}, batchnorm2d: {name: norm}, relu: {name: act}, conv2d: {out: 4, kernel: 1, name: head}]
    weights: {file: network.safetensors}
  layers: [act]
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {batch_size: 4, steps: 6}
)";

TensorValues drawn_tensor(const std::string& name, const Shape& shape, int start) {
  TensorValues tensor{name, {DType::f32, shape}, {}};
  for (std::int64_t i = 0; i < shape.num_elements(); ++i)
    tensor.values.push_back(static_cast<double>((i * 37 + start) % 64 - 31) / 64);
  return tensor;
}

std::vector<TensorValues> network_tensors() {
  std::vector<TensorValues> tensors = {
      drawn_tensor("conv.weight", {3, 2, 3, 3}, 5),        drawn_tensor("conv.bias", {3}, 11),
      {"norm.weight", {DType::f32, {3}}, {0.75, 1.25, 1}}, drawn_tensor("norm.bias", {3}, 40),
      drawn_tensor("norm.running_mean", {3}, 50),          {"norm.running_var", {DType::f32, {3}}, {0.5, 2, 1}},
      drawn_tensor("head.weight", {4, 3, 1, 1}, 1)};
  return tensors;
}

std::string of_file(const OutputFolder& folder) {
  return "loss.network.weights.file=" + folder.path("network.safetensors");
}

TestRun judged_run(const OutputFolder& folder, const std::string& output, std::vector<std::string> set = {}) {
  set.insert(set.begin(), of_file(folder));
  return TestRun(judged_experiment, folder.path(output), std::move(set));
}

Program program_of(const TestRun& run) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  return compile(run.experiment, run.data.description, *device);
}

std::int64_t bytes_of(const Program& program, Category category) {
  std::int64_t num_bytes = 0;
  const std::vector<char> persistent = persistent_buffers(program);
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (persistent[i] != 0 && program.buffers[i].category == category) num_bytes += program.buffers[i].num_bytes;
  return num_bytes;
}

std::int64_t num_calls(const Routine& routine, const Program& program, OpKind kind) {
  return std::count_if(routine.instructions.begin(), routine.instructions.end(), [&](const Instruction& each) {
    return each.kind == Instruction::Kind::run && program.calls[static_cast<std::size_t>(each.index)].op.kind == kind;
  });
}

/// The numbers of a tensor of `tensors`.
const std::vector<double>& numbers_of(std::vector<TensorValues>& tensors, const std::string& name) {
  return tensor_named(tensors, name).values;
}

/// What `act` is of an image (4, 6, 2), rows of channels: (2, 4, 3).
std::vector<double> features_of(const std::vector<double>& image) {
  std::vector<TensorValues> tensors = network_tensors();
  std::vector<double> features;
  for (std::size_t y = 0; y < 2; ++y) {
    for (std::size_t x = 0; x < 4; ++x) {
      for (std::size_t k = 0; k < 3; ++k) {
        double sum = numbers_of(tensors, "conv.bias")[k];
        for (std::size_t c = 0; c < 2; ++c)
          for (std::size_t i = 0; i < 3; ++i)
            for (std::size_t j = 0; j < 3; ++j)
              sum += numbers_of(tensors, "conv.weight")[((k * 2 + c) * 3 + i) * 3 + j] *
                     image[((y + i) * 6 + x + j) * 2 + c];
        const double normalised = (sum - numbers_of(tensors, "norm.running_mean")[k]) /
                                  std::sqrt(numbers_of(tensors, "norm.running_var")[k] + 1e-5);
        features.push_back(
            std::max(0.0, normalised * numbers_of(tensors, "norm.weight")[k] + numbers_of(tensors, "norm.bias")[k]));
      }
    }
  }
  return features;
}

/// The image and the target of a sample, as the loss of a model that passes images on compares them.
std::pair<std::vector<double>, std::vector<double>> sample_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::byte> image(4 * 6 * 2), target(4 * 6 * 2 * sizeof(float));
  const std::array<std::byte*, 2> fields = {image.data(), target.data()};
  dataset.read(index, fields);
  std::pair<std::vector<double>, std::vector<double>> result;
  for (const std::byte pixel : image) result.first.push_back(static_cast<double>(pixel) / 255);
  for (std::size_t i = 0; i < image.size(); ++i) {
    float number = 0;
    std::memcpy(&number, target.data() + i * sizeof(float), sizeof(float));
    result.second.push_back(static_cast<double>(number));
  }
  return result;
}

}  // namespace

TEST_CASE("A loss on features is the mean distance between what the frozen network makes of images and of targets") {
  const OutputFolder folder;
  write_tensors(folder.path("network.safetensors"), network_tensors());
  write_tensors(folder.path("identity.safetensors"), {{"model.weight", {DType::f32, {2, 2, 1, 1}}, {1, 0, 0, 1}},
                                                      {"model.bias", {DType::f32, {2}}, {0, 0}}});
  for (const std::string distance : {"l1", "mse"}) {
    TestRun run = judged_run(folder, distance,
                             {"loss.distance=" + distance, "loss.layer_weights=[0.5]", "train.steps=1",
                              "weights.file=" + folder.path("identity.safetensors")});
    REQUIRE(run() == RunStatus::done);
    double sum = 0, count = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto [image, target] = sample_of(*run.data.train, i);
      const std::vector<double> of_image = features_of(image), of_target = features_of(target);
      for (std::size_t j = 0; j < of_image.size(); ++j, ++count) {
        const double error = of_image[j] - of_target[j];
        sum += distance == "l1" ? std::abs(error) : error * error;
      }
    }
    REQUIRE(sum > 0.1);
    CHECK(run.events.steps.at(0).loss == Approx(0.5 * sum / count).epsilon(1e-5));
  }
}

TEST_CASE("A frozen network is held once, under its own name, and its layers end with the last that is compared") {
  const OutputFolder folder;
  write_tensors(folder.path("network.safetensors"), network_tensors());
  const Program program = program_of(judged_run(folder, "run"));
  std::vector<std::string> names;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const Parameter& parameter = program.parameters[p];
    if (!parameter.is_frozen()) continue;
    names.push_back(parameter.name);
    CHECK(program.buffers[static_cast<std::size_t>(program.parameter_buffers[p])].category == Category::frozen);
    CHECK(program.layer_label(parameter.layer) == "loss.network (frozen)");
    CHECK_FALSE(parameter.trainable);
    CHECK(program.optimizer_buffers[p].first < 0);
  }
  CHECK(names == std::vector<std::string>{"loss.network.conv.weight", "loss.network.conv.bias",
                                          "loss.network.norm.running_mean", "loss.network.norm.running_var",
                                          "loss.network.norm.weight", "loss.network.norm.bias"});
  CHECK(bytes_of(program, Category::frozen) == 4 * (54 + 3 + 4 * 3));
  CHECK(bytes_of(program, Category::parameter) == 4 * (4 + 2));
  // Of products the 16-bit form alone.
  const Program in_half = program_of(judged_run(folder, "half", {"train.amp=bf16"}));
  CHECK(bytes_of(in_half, Category::frozen) == 2 * (54 + 3) + 4 * 4 * 3);
}

TEST_CASE("The gradient goes through a frozen network to its prediction, and to nothing else") {
  const OutputFolder folder;
  write_tensors(folder.path("network.safetensors"), network_tensors());
  const Program program = program_of(judged_run(folder, "run"));
  const Routine& step = program.micro_batches.front().first;
  CHECK(num_calls(step, program, OpKind::conv2d) == 3);
  CHECK(num_calls(step, program, OpKind::conv2d_backward_weight) == 1);
  CHECK(num_calls(step, program, OpKind::conv2d_backward_input) == 1);
  CHECK(num_calls(step, program, OpKind::batchnorm2d_inference) == 2);
  CHECK(num_calls(step, program, OpKind::batchnorm2d_inference_backward) == 1);
  CHECK(num_calls(step, program, OpKind::activation_backward) == 1);
}

TEST_CASE("A frozen network is told of at the start, is not saved, and is read again by a run that is resumed") {
  const OutputFolder folder;
  write_tensors(folder.path("network.safetensors"), network_tensors());
  TestRun whole = judged_run(folder, "whole", {"checkpoint.every=3"});
  REQUIRE(whole() == RunStatus::done);
  REQUIRE(whole.events.starts.at(0).frozen.size() == 1);
  const WeightsMatch& match = whole.events.starts[0].frozen[0];
  CHECK(match.network == "loss.network");
  CHECK((match.count(WeightsStatus::loaded) == 6 && match.count(WeightsStatus::ignored) == 1));
  CHECK(whole.events.starts[0].num_parameters == 6);
  const SafetensorsFile saved(checkpoint_file(folder.path("whole"), 6, "model.safetensors"));
  CHECK(saved.tensors().size() == 2);

  TestRun part = judged_run(folder, "part", {"checkpoint.every=3"});
  part.events.interrupt_after = 3;
  REQUIRE(part() == RunStatus::interrupted);
  TestRun rest = judged_run(folder, "part", {"checkpoint.every=3"});
  rest.options.resume = true;
  REQUIRE(rest() == RunStatus::done);
  CHECK(same_file(folder, "whole", "part", 6, "model.safetensors"));
  CHECK(same_file(folder, "whole", "part", 6, "optimizer.safetensors"));

  // One number less: another network.
  std::vector<TensorValues> changed = network_tensors();
  tensor_named(changed, "conv.bias").values[0] += 0.25;
  write_tensors(folder.path("network.safetensors"), changed);
  TestRun other = judged_run(folder, "part", {"checkpoint.every=3", "train.steps=9"});
  other.options.resume = true;
  CHECK_THAT(refusal_of<DataError>([&] { other(); }), Contains("other weights in the frozen network 'loss.network'"));
}

TEST_CASE("What the file of a frozen network lacks, or has of another shape, is told with its name") {
  const OutputFolder folder;
  const auto refusal = [&](const std::vector<TensorValues>& tensors, std::vector<std::string> set = {}) {
    write_tensors(folder.path("network.safetensors"), tensors);
    TestRun run = judged_run(folder, "run", std::move(set));
    return refusal_of<WeightsMismatch>([&] { run(); });
  };
  std::vector<TensorValues> tensors = network_tensors();
  tensor_named(tensors, "norm.weight").name = "norm.weigth";
  CHECK_THAT(refusal(tensors), Contains("the network of 'loss.network' do not match: 1 of 8 tensors") &&
                                   Contains("norm.weight: only the network has it") &&
                                   Contains("the file's nearest is 'norm.weigth'"));
  tensors = network_tensors();
  tensor_named(tensors, "conv.weight") = drawn_tensor("conv.weight", {3, 3, 3, 3}, 5);
  CHECK_THAT(refusal(tensors), Contains("conv.weight: the file's is 3×3×3×3, the network's 3×2×3×3") &&
                                   Contains("the images must have as many channels"));
  CHECK_THAT(refusal(network_tensors(), {"loss.network.weights.strict=true"}),
             Contains("head.weight: only the file has it"));
  TestRun missing = judged_run(folder, "missing");
  std::filesystem::remove(folder.path("network.safetensors"));
  CHECK_THAT(refusal_of<DataError>([&] { missing(); }), Contains("network.safetensors"));
}

TEST_CASE("A loss on features that does not go with its network, model or data is refused at its place") {
  const OutputFolder folder;
  const auto refusal = [&](std::vector<std::string> set) {
    return refusal_of<ConfigError>([&] { program_of(judged_run(folder, "run", std::move(set))); });
  };
  CHECK_THAT(refusal({"loss.layers=[actt]"}),
             Contains("the network has no layer 'actt'") && Contains("did you mean 'act'") && Contains("loss.layers="));
  CHECK_THAT(refusal({"data.target_shape=[4, 6, 3]"}),
             Contains("test.yaml:6") && Contains("output is 4×4×6×2 and the targets are 4×4×6×3"));
  CHECK_THAT(refusal({"model.layers=[flatten, linear: {out: 2}]", "data.target_shape=[2]"}),
             Contains("a loss on features compares images"));
  CHECK_THAT(refusal({"data.target_type=categorical", "data.target_shape=null", "data.classes=3"}),
             Contains("feature needs images as targets; the data has classes"));
  CHECK_THAT(refusal({"loss.mean=[1, 2, 3]", "loss.std=1"}),
             Contains("3 values of 'mean' or 'std' for images of 2 channels"));
  CHECK_THAT(refusal({"loss.network.layers=[conv2d: {out: 3, kernel: 9, name: act}]"}),
             Contains("layer 'loss.target.act'"));
  // The model's layers are not its own.
  CHECK_THAT(refusal({"loss.network.layers=[conv2d: {out: 2, kernel: 1, share: model, name: act}]"}),
             Contains("no layer before this one is called 'model'"));
  CHECK_THAT(
      refusal({"loss.network.layers=[conv2d: {out: 2, kernel: 1, name: own}, add: {from: [own, model], name: act}]"}),
      Contains("no layer before this one is called 'model'"));
  CHECK_THAT(refusal({"loss.mean=0", "loss.std=1e-25"}), Contains("a 'std' whose square is no usable number"));
}
