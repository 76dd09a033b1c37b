#include "tests/cuda/step_launches.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "engine/config/load_experiment.h"
#include "engine/ops/op_definition.h"
#include "engine/program/compile.h"
#include "tests/cuda/emulated_device.h"
#include "tests/device/described_device.h"

namespace trainer::cuda {
namespace {

struct StepOfConfig {
  Program program;
  RunSchedule schedule;
};

StepOfConfig compile_step(const Experiment& experiment, const DataDescription& data) {
  return {compile(experiment, data, *make_emulated_device(experiment.device.tf32)), RunSchedule(experiment, data)};
}

StepOfConfig compile_text(const std::string& layers, const std::string& train) {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [40, 40, 8], classes: 10, samples: 64}\n"
      "model: {layers: [" +
          layers + "]}\noptimizer: {type: sgd, lr: 0.1}\ntrain: {" + train + "}\n",
      "step_launches_test");
  return compile_step(experiment, described_data({40, 40, 8}, 10, 64));
}

double num_kernels(const std::array<OpLaunches, num_op_kinds>& counted, OpKind kind) {
  return counted[static_cast<std::size_t>(kind)].kernels;
}
double num_library_calls(const std::array<OpLaunches, num_op_kinds>& counted, OpKind kind) {
  return counted[static_cast<std::size_t>(kind)].library_calls;
}

}  // namespace

TEST_CASE("The launches of a step are counted for its shapes without running it") {
  const std::string layers = "{linear: {out: 64}}, relu, {linear: {out: 10}}";
  const StepOfConfig once = compile_text("flatten, " + layers, "batch_size: 4");
  const auto counted = count_step_launches(once.program, once.schedule, false);
  // Each product is a call into cuBLASLt with everything around it; the first layer's input has no gradient.
  CHECK(num_library_calls(counted, OpKind::linear) == 2);
  CHECK(num_library_calls(counted, OpKind::linear_backward_weight) == 2);
  CHECK(num_library_calls(counted, OpKind::linear_backward_input) == 1);
  CHECK(num_kernels(counted, OpKind::linear) == 0);
  CHECK(num_kernels(counted, OpKind::sgd_update) == 1);
  CHECK(num_library_calls(counted, OpKind::sgd_update) == 0);

  const StepOfConfig twice = compile_text("flatten, " + layers, "batch_size: 4, accumulation_steps: 2");
  const auto accumulated = count_step_launches(twice.program, twice.schedule, false);
  CHECK(num_library_calls(accumulated, OpKind::linear) == 4);
  CHECK(num_kernels(accumulated, OpKind::sgd_update) == 1);
}

TEST_CASE("Convolutions are calls into cuDNN, batch norm and what stands beside a convolution are kernels") {
  const StepOfConfig step = compile_text(
      "{conv2d: {out: 4, kernel: 3}}, batchnorm2d, relu, global_avgpool, {linear: {out: 10}}", "batch_size: 4");
  const auto counted = count_step_launches(step.program, step.schedule, false);
  CHECK(num_library_calls(counted, OpKind::conv2d) == 1);
  CHECK(num_library_calls(counted, OpKind::conv2d_backward_weight) == 1);
  CHECK(num_library_calls(counted, OpKind::conv2d_backward_input) == 0);
  CHECK(num_library_calls(counted, OpKind::batchnorm2d) == 0);
  CHECK(num_kernels(counted, OpKind::batchnorm2d) >= 1);
  CHECK(num_kernels(counted, OpKind::batchnorm2d_backward) >= 1);
}

TEST_CASE("A layer norm's gradients come of one kernel, and of one more for the sums of several parts of the rows") {
  const std::string layers = "flatten, {linear: {out: 64}}, layernorm, {linear: {out: 10}}";
  for (const auto& [batch, num] : {std::pair{"16", 1}, std::pair{"40", 2}}) {
    const StepOfConfig step = compile_text(layers, std::string("batch_size: ") + batch);
    CHECK(num_kernels(count_step_launches(step.program, step.schedule, false), OpKind::layernorm_backward) == num);
  }
}

// For scripts/predict_gpu.py: TRAINER_STEP_LAUNCHES names a config and its overrides, a word a line.
TEST_CASE("The launches of a configuration's step", "[.step_launches]") {
  const char* asked = std::getenv("TRAINER_STEP_LAUNCHES");
  REQUIRE(asked != nullptr);
  std::istringstream lines(asked);
  std::string config, line;
  std::getline(lines, config);
  std::vector<std::string> overrides;
  while (std::getline(lines, line)) overrides.push_back(line);
  const Experiment experiment = load_experiment(config, overrides);
  const StepOfConfig step = compile_step(experiment, describe_data(experiment.data, experiment.seed));
  const auto counted = count_step_launches(step.program, step.schedule, experiment.device.tf32);
  std::string text;
  for (int kind = 0; kind < num_op_kinds; ++kind) {
    const OpLaunches& launches = counted[static_cast<std::size_t>(kind)];
    if (launches.kernels + launches.library_calls == 0) continue;
    text += (text.empty() ? "" : ", ") + ("\"" + std::string(name_of(static_cast<OpKind>(kind)))) +
            "\": {\"kernels\": " + std::to_string(launches.kernels) +
            ", \"library_calls\": " + std::to_string(launches.library_calls) + "}";
  }
  std::printf("\n{%s}\n", text.c_str());
}

}  // namespace trainer::cuda
