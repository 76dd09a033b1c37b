#include "tests/train/files/weights_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

constexpr const char* tied_experiment = R"(
name: tied
data: {type: synthetic, shape: [3], classes: 3, samples: 8, shuffle: false}
model:
  layers:
    - linear: {out: 3, name: a}
    - tanh
    - linear: {out: 3, name: b, share: a}
    - sigmoid
    - linear: {out: 3, share: a}
optimizer: {type: sgd, lr: 1}
train: {batch_size: 8, steps: 1}
)";

/// The loss of the first step from these weights.
double loss_with(const OutputFolder& folder, const std::vector<TensorValues>& tensors) {
  write_tensors(folder.path("start.safetensors"), tensors);
  TestRun run(tied_experiment, folder.path("loss"), {"weights.file=" + folder.path("start.safetensors")});
  run.options.overwrite = true;
  REQUIRE(run() == RunStatus::done);
  return run.events.steps.at(0).loss;
}

std::vector<TensorValues> tied_tensors() {
  return {{"a.weight", {DType::f32, Shape{3, 3}}, {0.5, -0.25, 1, 0.75, -1, 0.125, -0.5, 0.25, 0.625}},
          {"a.bias", {DType::f32, Shape{3}}, {0.25, -0.5, 0.125}}};
}

}  // namespace

TEST_CASE("The update of a shared parameter is that of the derivative of the loss by it, found by differences") {
  const OutputFolder folder;
  const std::vector<TensorValues> start = tied_tensors();
  loss_with(folder, start);
  for (std::size_t t = 0; t < start.size(); ++t) {
    const std::vector<float> after = saved_values(folder.path("loss"), start[t].name, 1);
    REQUIRE(after.size() == start[t].values.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      constexpr double step = 1.0 / 64;
      std::vector<TensorValues> above = start, below = start;
      above[t].values[i] += step;
      below[t].values[i] -= step;
      const OutputFolder other;
      const double slope = (loss_with(other, above) - loss_with(other, below)) / (2 * step);
      INFO(start[t].name << " " << i);
      CHECK(start[t].values[i] - static_cast<double>(after[i]) == Approx(slope).margin(2e-4));
    }
  }
}

TEST_CASE("Shared parameters are saved once, and a file that has them again is told whose they are") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = tied_tensors();
  loss_with(folder, tensors);
  const SafetensorsFile file(checkpoint_file(folder.path("loss"), 1, "model.safetensors"));
  CHECK(file.tensors().size() == 2);
  tensors.push_back(counted("b.weight", {3, 3}));
  write_tensors(folder.path("twice.safetensors"), tensors);
  TestRun run(tied_experiment, folder.path("twice"), {"weights.file=" + folder.path("twice.safetensors")});
  CHECK_THROWS_WITH(run(), Contains("b.weight: only the file has it, since layer 'b' uses the parameters of 'a': "
                                    "weights.ignore"));
  TestRun ignoring(tied_experiment, folder.path("twice"),
                   {"weights.file=" + folder.path("twice.safetensors"), "weights.ignore=[b]"});
  CHECK(ignoring() == RunStatus::done);
}
