#pragma once

#include <string>
#include <vector>

#include "tests/ranks/rank_runs.h"

// Runs with parallel.deterministic, beside the same run on other numbers of ranks: bit by bit.

namespace trainer {

inline std::vector<std::string> with_overrides(std::vector<std::string> overrides,
                                               const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

inline void check_same_bits(const std::vector<RankRun>& ranks, const RankRun& one) {
  for (const RankRun& run : ranks) {
    CHECK(run.mistake == "");
    CHECK(run.status == one.status);
    REQUIRE(run.steps.size() == one.steps.size());
    REQUIRE(run.evaluations.size() == one.evaluations.size());
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      CHECK(run.steps[i].loss == one.steps[i].loss);
      CHECK(run.steps[i].samples == one.steps[i].samples);
    }
    for (std::size_t i = 0; i < one.evaluations.size(); ++i) {
      CHECK(run.evaluations[i].loss == one.evaluations[i].loss);
      CHECK(run.evaluations[i].accuracy == one.evaluations[i].accuracy);
      CHECK(run.evaluations[i].counted.mae == one.evaluations[i].counted.mae);
      CHECK(run.evaluations[i].counted.r2 == one.evaluations[i].counted.r2);
      CHECK(run.evaluations[i].best == one.evaluations[i].best);
      CHECK(run.evaluations[i].samples == one.evaluations[i].samples);
    }
  }
}

inline void check_same_files(const OutputFolder& folder, const std::string& a, const std::string& b, std::size_t step) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    CHECK(same_file(folder, a, b, static_cast<int>(step), file));
}

inline constexpr const char* several_numbers = R"(
name: ranks
seed: 5
data: {type: synthetic, shape: [5], target_type: numeric, classes: 3, samples: 20, validation_samples: 150}
loss: mse
model: {layers: [{linear: {out: 7}}, tanh, {linear: {out: 3}}]}
optimizer: {type: adam, lr: 0.01}
train: {batch_size: 9, steps: 6, eval_every: 2}
)";

inline std::vector<RankCase> deterministic_cases() {
  std::vector<RankCase> cases;
  for (RankCase& each : rank_cases())
    if (each.name != "bf16 with gradients of 16 bit") cases.push_back(std::move(each));
  cases.push_back({"bf16", without_norms, {"train.amp=bf16", "average=ema", "average.decay=0.9"}, 3e-2});
  cases.push_back({"batch norm", small_experiment, {"train.steps=9", "train.batch_size=9"}});
  cases.push_back({"batch norm, accumulated",
                   small_experiment,
                   {"train.steps=9", "train.batch_size=9", "train.accumulation_steps=3"}});
  cases.push_back({"frozen layers", without_norms, {"freeze=['0']"}});
  // Batches of 5 leave half of the parts without a sample, and the last, of 3, more of them.
  cases.push_back({"numbers, evaluated in small batches",
                   numbers_model,
                   {"data.validation_samples=43", "train.eval_batch_size=5", "checkpoint.best=r2"}});
  cases.push_back({"several numbers, planned places",
                   several_numbers,
                   {"memory.allocator=planned", "train.eval_batch_size=64", "checkpoint.best=mae"}});
  cases.push_back(
      {"planned places, accumulated", without_norms, {"memory.allocator=planned", "train.accumulation_steps=3"}});
  return cases;
}

}  // namespace trainer
