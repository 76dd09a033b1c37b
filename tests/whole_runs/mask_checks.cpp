#include "tests/whole_runs/mask_checks.h"

#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

// Windows that touch and that overlap; a convolution wider than the pooling behind it; dropout and flatten
// behind ReLU; accumulation and an odd last batch.
constexpr const char* masked_network = R"(
name: masked
seed: 5
data: {type: synthetic, shape: [12, 12, 3], classes: 5, samples: 44, validation_samples: 12}
model:
  layers:
    - conv2d: {out: 7, kernel: 3, padding: 1}
    - relu
    - maxpool2d: {kernel: 3, stride: 2, padding: 1}
    - conv2d: {out: 8, kernel: 3, padding: 1}
    - maxpool2d: {kernel: 2}
    - relu
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - maxpool2d: {kernel: 2, stride: 1}
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - relu
    - dropout: {p: 0.2}
    - flatten
    - linear: {out: 70}
    - relu
    - dropout: {p: 0.3}
    - dropout: {p: 0.1}
    - linear: {out: 5}
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {batch_size: 5, accumulation_steps: 2, steps: 40, eval_every: 8}
)";

}  // namespace

void check_masks_change_no_bit(Device& device) {
  const OutputFolder folder;
  TestRun with(masked_network, folder.path("with"));
  TestRun without(masked_network, folder.path("without"), {"memory.in_place=false"});
  REQUIRE(with(device) == RunStatus::done);
  REQUIRE(without(device) == RunStatus::done);
  REQUIRE(with.events.steps.size() == without.events.steps.size());
  for (std::size_t i = 0; i < with.events.steps.size(); ++i) {
    INFO("step " << with.events.steps[i].step);
    CHECK(with.events.steps[i].loss == without.events.steps[i].loss);
    CHECK(with.events.steps[i].memory.step.peak_requested < without.events.steps[i].memory.step.peak_requested);
  }
  CHECK(with.events.evaluations.back().loss == without.events.evaluations.back().loss);
  CHECK(same_file(folder, "with", "without", 40, "model.safetensors"));
  CHECK(same_file(folder, "with", "without", 40, "optimizer.safetensors"));
}

}  // namespace trainer
