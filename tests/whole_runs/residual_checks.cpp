#include "tests/whole_runs/residual_checks.h"

#include <string>

#include "engine/program/compile.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

// `between` stands between a batch norm and its sum: nothing, or an average over windows of one pixel. Sums with and
// without ReLU, of the input and of a second batch norm; accumulation and an odd last batch.
std::string residual_cnn(const std::string& between) {
  return R"(
name: residual-cnn
seed: 5
data: {type: synthetic, shape: [10, 9, 3], classes: 5, samples: 44, validation_samples: 12}
model:
  layers:
    - conv2d: {out: 7, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - residual: {layers: [conv2d: {out: 7, kernel: 3, padding: 1}, batchnorm2d, relu, conv2d: {out: 7, kernel: 3, padding: 1}, batchnorm2d)" +
         between + R"(]}
    - relu
    - residual:
        layers: [conv2d: {out: 10, kernel: 3, stride: 2, padding: 1}, batchnorm2d, relu, conv2d: {out: 10, kernel: 3, padding: 1}, batchnorm2d]
        shortcut: [conv2d: {out: 10, kernel: 1, stride: 2}, batchnorm2d: {affine: false})" +
         between + R"(]
    - relu
    - residual: {layers: [conv2d: {out: 10, kernel: 1}, batchnorm2d)" +
         between + R"(]}
    - silu
    - global_avgpool
    - linear: {out: 5}
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {batch_size: 5, accumulation_steps: 2, steps: 24, eval_every: 8}
)";
}

// `between` stands between a sum and the layer norm that reads it: nothing, or a view.
std::string residual_mlp(const std::string& between) {
  return R"(
name: residual-mlp
seed: 5
data: {type: synthetic, shape: [12], classes: 4, samples: 22, validation_samples: 6}
model:
  layers:
    - linear: {out: 24}
    - repeat:
        times: 3
        layers:
          - residual: {layers: [)" +
         between + R"(layernorm, linear: {out: 40}, gelu, linear: {out: 24}]}
    - residual: {layers: [)" +
         between + R"(rmsnorm: {affine: false}, linear: {out: 24}]}
    - relu
    - layernorm
    - linear: {out: 4}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 5, steps: 24, eval_every: 8}
)";
}

int num_adding_norms(const TestRun& run, const Device& device) {
  int number = 0;
  for (const OpCall& call : compile(run.experiment, run.data.description, device).calls) {
    const auto* const batchnorm = std::get_if<BatchNorm2dAttributes>(&call.op.attributes);
    const auto* const layernorm = std::get_if<LayerNormAttributes>(&call.op.attributes);
    number += (batchnorm != nullptr && batchnorm->adds) || (layernorm != nullptr && layernorm->adds) ? 1 : 0;
  }
  return number;
}

void check_same_losses(Device& device, const std::string& network, const std::string& kept_apart) {
  const OutputFolder folder;
  TestRun fused(network, folder.path("fused"));
  TestRun apart(kept_apart, folder.path("apart"));
  CHECK(num_adding_norms(fused, device) > 0);
  CHECK(num_adding_norms(apart, device) == 0);
  REQUIRE(fused(device) == RunStatus::done);
  REQUIRE(apart(device) == RunStatus::done);
  REQUIRE(fused.events.steps.size() == apart.events.steps.size());
  for (std::size_t i = 0; i < fused.events.steps.size(); ++i) {
    INFO("step " << fused.events.steps[i].step);
    CHECK(fused.events.steps[i].loss == apart.events.steps[i].loss);
    CHECK(fused.events.steps[i].memory.step.peak_requested <= apart.events.steps[i].memory.step.peak_requested);
  }
  REQUIRE(fused.events.evaluations.size() == 3);
  for (std::size_t i = 0; i < fused.events.evaluations.size(); ++i)
    CHECK(fused.events.evaluations[i].loss == apart.events.evaluations[i].loss);
}

}  // namespace

void check_fused_residuals_change_no_bit(Device& device) {
  check_same_losses(device, residual_cnn(""), residual_cnn(", avgpool2d: {kernel: 1}"));
  check_same_losses(device, residual_mlp(""), residual_mlp("flatten, "));
}

}  // namespace trainer
