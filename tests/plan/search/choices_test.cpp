#include "engine/plan/search/choices.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"
#include "engine/plan/search/choice_space.h"
#include "engine/program/run_schedule.h"
#include "tests/device/described_device.h"

using namespace trainer;
using Keep = ChoiceOptions::Keep;

namespace {

/// A network, and overrides that make what it may become: one of each list.
struct Space {
  const char* name;
  std::string yaml;
  DataDescription data;
  std::vector<std::vector<std::string>> overrides;  ///< "" is as it is
};

const std::vector<std::string> all_amp = {"", "train.amp=bf16"};
const std::vector<std::string> all_recomputation = {"", "memory.recompute_cheap=false", "train.checkpointing=auto"};
const std::vector<std::string> all_storage = {"", "memory.allocator=planned", "memory.expandable_segments=true"};
const std::vector<std::string> all_updates = {"", "memory.update=in_backward"};

std::vector<std::string> splits_of(int batch_size) {
  std::vector<std::string> splits = {""};
  for (int parts = 2; parts <= batch_size; ++parts)
    if (batch_size % parts == 0)
      splits.push_back("train.batch_size=" + std::to_string(batch_size / parts) +
                       " train.accumulation_steps=" + std::to_string(parts));
  return splits;
}

std::vector<Space> spaces() {
  std::vector<Space> result;
  result.push_back(
      {"mlp",
       "data: {type: synthetic, shape: [40], classes: 7, samples: 96}\n"
       "model: {layers: [{linear: {out: 300}}, layernorm, gelu, {linear: {out: 500}}, silu, "
       "{linear: {out: 7}}]}\noptimizer: {type: adam}\ntrain: {batch_size: 48}\n",
       described_data({40}, 7, 96),
       {splits_of(48), all_amp, all_recomputation, all_storage, all_updates, {"", "memory.moments=8bit"}}});
  result.push_back(
      {"cnn",
       "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 64}\n"
       "model: {layers: [{conv2d: {out: 24, kernel: 3}}, batchnorm2d, relu, {conv2d: {out: 32, kernel: 3}},"
       " batchnorm2d, relu, global_avgpool, {linear: {out: 10}}]}\n"
       "train: {batch_size: 32}\noptimizer: {type: sgd, momentum: 0.9}\n",
       described_data({16, 16, 3}, 10, 64, 128),
       {splits_of(32),
        all_amp,
        all_recomputation,
        all_storage,
        all_updates,
        {"", "memory.gradients=16bit", "memory.master_weights=false",
         "memory.gradients=16bit memory.master_weights=false"}}});
  return result;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// Every way to take one of each list.
std::vector<std::vector<std::string>> combinations(const std::vector<std::vector<std::string>>& lists) {
  std::vector<std::vector<std::string>> result = {{}};
  for (const std::vector<std::string>& list : lists) {
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& start : result)
      for (const std::string& text : list) {
        std::vector<std::string> set = start;
        for (const std::string& word : words_of(text)) set.push_back(word);
        longer.push_back(set);
      }
    result = longer;
  }
  return result;
}

/// By what was changed alone: what the documentation of the keys promises.
NumbersEffect numbers_of(const std::vector<std::string>& set, bool cut_matters) {
  NumbersEffect numbers = NumbersEffect::same_bits;
  for (const std::string& word : set) {
    if (word.starts_with("train.batch_size")) numbers = std::max(numbers, NumbersEffect::same_rounding);
    if (word.starts_with("train.batch_size") && cut_matters) numbers = NumbersEffect::other;
    if (word.starts_with("train.amp") || word.starts_with("memory.moments") || word.starts_with("memory.gradients") ||
        word.starts_with("memory.master"))
      numbers = NumbersEffect::other;
  }
  return numbers;
}

}  // namespace

TEST_CASE("Evaluation is cut to the batches of training that there are, not to those that were asked for") {
  for (const int batch_size : {40, 5000}) {
    Experiment experiment = parse_experiment(
        "data: {type: synthetic, shape: [4], classes: 3, samples: 96}\nmodel: {layers: [linear: {out: 3}]}\n"
        "train: {eval_batch_size: 300, batch_size: " +
            std::to_string(batch_size) + "}\n",
        "test.yaml");
    const DataDescription data = described_data({4}, 3, 96, 300);
    for (const Saver saver : savers_for(experiment, data)) saver(experiment);
    CHECK(RunSchedule(experiment, data).eval_batch_size() == std::min(batch_size, 96));
  }
}

TEST_CASE("no combination that fits is much faster than a choice that keeps the numbers as well", "[exhaustive]") {
  const DescribedDevice device;
  const MachineRates rates = assumed_cpu_rates(1);
  for (const Space& space : spaces()) {
    const Experiment experiment = parse_experiment(space.yaml, "test.yaml");
    Planner planner(device, rates);
    struct Combination {
      std::vector<std::string> set;
      Experiment experiment;
    };
    std::vector<Combination> all;
    for (const std::vector<std::string>& set : combinations(space.overrides)) {
      try {
        all.push_back({set, parse_experiment(space.yaml, "test.yaml", set)});
      } catch (const ConfigError&) {  // refused by a rule
      }
    }
    const std::int64_t peak = planner.plan(experiment, space.data, std::int64_t{1} << 40).peak_reserved;
    for (const int percent : {100, 75, 55}) {
      const std::int64_t capacity = peak * percent / 100;
      INFO(space.name << " at " << percent << " % of " << peak);
      const std::vector<Change> choices = find_choices(planner, experiment, space.data, capacity, {});
      for (const Change& choice : choices) {
        std::string words;
        for (const std::string& word : choice.set) words += word + " ";
        INFO(words);
        const Verdict pasted =
            Planner(device, rates).plan(parse_experiment(space.yaml, "test.yaml", choice.set), space.data, capacity);
        CHECK(pasted.fits);
        CHECK(pasted.peak_reserved == choice.peak_reserved);
        CHECK(pasted.time.seconds == Approx(choice.step_seconds));
        CHECK(choice.numbers == numbers_of(choice.set, std::string(space.name) == "cnn"));
      }
      CHECK(std::is_sorted(choices.begin(), choices.end(),
                           [](const Change& a, const Change& b) { return a.step_seconds < b.step_seconds; }));
      int num_fitting = 0;
      for (const Combination& combination : all) {
        const Verdict verdict = planner.plan(combination.experiment, space.data, capacity);
        if (!verdict.fits) continue;
        ++num_fitting;
        const NumbersEffect numbers = numbers_of(combination.set, std::string(space.name) == "cnn");
        const bool is_matched = std::any_of(choices.begin(), choices.end(), [&](const Change& choice) {
          return choice.numbers <= numbers && choice.step_seconds <= same_speed * verdict.time.seconds;
        });
        if (is_matched) continue;
        std::string words;
        for (const std::string& word : combination.set) words += word + " ";
        FAIL(words << "takes " << verdict.time.seconds << " s");
      }
      CHECK(num_fitting > 0);
      CHECK_FALSE(choices.empty());
    }
  }
}
