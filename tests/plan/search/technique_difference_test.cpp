#include "engine/plan/search/technique_difference.h"

#include <catch2/catch.hpp>

#include <map>

#include "engine/config/key_effects.h"
#include "engine/config/load_experiment.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

Experiment technique_base(const std::vector<std::string>& overrides) {
  return parse_experiment(
      "model: {layers: [flatten, linear: {out: 10}]}\n"
      "data: {type: synthetic, shape: [4], classes: 10, samples: 64, validation_samples: 64}\n"
      "optimizer: adam\ntrain: {batch_size: 16, amp: bf16}\nmemory: {chunked_loss: 0}\n",
      "test.yaml", overrides);
}

/// Another value than the one above for each technique.
const std::map<std::string, std::string> other_techniques = {{"train.batch_size", "8"},
                                                             {"train.accumulation_steps", "2"},
                                                             {"train.eval_batch_size", "4"},
                                                             {"train.amp", "off"},
                                                             {"train.checkpointing", "sqrt"},
                                                             {"memory.gradients", "16bit"},
                                                             {"memory.master_weights", "false"},
                                                             {"memory.moments", "8bit"},
                                                             {"memory.allocator", "planned"},
                                                             {"memory.update", "in_backward"},
                                                             {"memory.expandable_segments", "true"},
                                                             {"memory.chunked_loss", "auto"},
                                                             {"memory.workspace_limit", "0"},
                                                             {"memory.recompute_cheap", "false"},
                                                             {"parallel.shard", "gradients"},
                                                             {"parallel.overlap", "false"},
                                                             {"parallel.bucket_size", "1000"},
                                                             {"parallel.prefetch", "3"}};

}  // namespace

TEST_CASE("Every key that is declared a technique is told where it differs, with what it makes of the numbers") {
  const DataDescription data = described_data({4}, 10, 64);
  const Experiment before = technique_base({});
  std::size_t num_techniques = 0;
  for (const KeyEffects& each : key_effects()) {
    INFO(each.key);
    CHECK(is_technique_key(each.key) == each.technique_numbers.has_value());
    if (!each.technique_numbers) continue;
    ++num_techniques;
    REQUIRE(other_techniques.contains(each.key));
    const std::string text = each.key + "=" + other_techniques.at(each.key);
    const TechniqueDifference difference = find_technique_difference(before, technique_base({text}), data);
    CHECK(difference.set == std::vector<std::string>{text});
    CHECK(difference.numbers >= *each.technique_numbers);
  }
  CHECK(num_techniques == other_techniques.size());
}

TEST_CASE("Nothing is told of experiments that are the same") {
  const Experiment experiment = technique_base({});
  const TechniqueDifference difference = find_technique_difference(experiment, experiment, described_data({4}, 10, 64));
  CHECK(difference.set.empty());
  CHECK(difference.numbers == NumbersEffect::same_bits);
}
