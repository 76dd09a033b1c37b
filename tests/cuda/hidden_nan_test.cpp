// Runs whose library hides NaN: Note [Lost weights] in engine/ops/loss_statistics.h.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer::cuda {

namespace {

/// A layer whose product is the library's with ReLU as its epilogue: without the mask of its gradient, or with it.
std::string network(int outputs, const char* activation) {
  return fmt::format(R"(
seed: 1
data: {{type: synthetic, shape: [2], samples: 20, target_type: numeric, shuffle: false}}
model: {{layers: [{{linear: {{out: {}, name: first}}}}, {}, {{linear: {{out: 1, name: last}}}}]}}
loss: mse
optimizer: {{type: sgd, lr: 0.001}}
train: {{batch_size: 2, steps: 10}}
)",
                     outputs, activation);
}

}  // namespace

TEST_CASE("a library's ReLU that hides NaN does not hide a diverged run") {
  for (const int outputs : {8, 64}) {
    for (const std::vector<std::string>& overrides : {std::vector<std::string>{},
                                                      {"train.accumulation_steps=2", "train.steps=5"},
                                                      {"train.clip_norm=1"},
                                                      {"train.amp=bf16"},
                                                      {"optimizer={type: adamw, lr: 0.001}"}}) {
      INFO(outputs << " outputs " << (overrides.empty() ? "" : overrides.front()));
      const OutputFolder folder;
      TestRun hidden(network(outputs, "relu"), folder.path("hidden"), overrides);
      hidden.data = numbers_with(std::numeric_limits<float>::quiet_NaN(), 11);
      const auto device = make_emulated_device(false, CopyTiming::late, true);
      REQUIRE(hidden(*device) == RunStatus::diverged);
      const bool in_parts = !overrides.empty() && overrides[0] == "train.accumulation_steps=2";
      const DivergedEvent& event = hidden.events.divergences.at(0);
      CHECK(event.step == (in_parts ? 3 : 6));  // samples 10 and 11
      CHECK(event.layer.find("first") != std::string::npos);
      CHECK(std::isfinite(event.loss));  // clipped gradients lose all weights, and the loss is one before the update
      CHECK(hidden.events.ends.at(0).status == "diverged");
    }
  }
}

TEST_CASE("under a loss scale gradients that are not finite skip their update, also where a ReLU hides them") {
  const OutputFolder folder;
  TestRun run(network(64, "relu"), folder.path("run"), {"train.amp=fp16", "train.loss_scale.initial=1e29"});
  const auto device = make_emulated_device(false, CopyTiming::late, true);
  run(*device);
  REQUIRE(run.events.steps.size() > 3);
  CHECK(run.events.steps[0].skipped);
  CHECK(run.events.steps[1].loss_scale < run.events.steps[0].loss_scale);
}

}  // namespace trainer::cuda
