#include "engine/plan/search/model_cuts.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/fixes.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

/// What a model needs without a bound, and what is found where it has a share of that.
struct CutModel {
  explicit CutModel(std::string text, double share)
      : yaml(
            "data: {type: synthetic, shape: [16, 16, 3], classes: 10, samples: 64}\noptimizer: {type: sgd}\n"
            "train: {batch_size: 1}\nmemory: {allocator: planned}\n" +
            std::move(text)),
        experiment(parse_experiment(yaml, "test.yaml")),
        data(described_data({16, 16, 3}, 10, 64)),
        planner(device, rates),
        capacity(static_cast<std::int64_t>(
            share * static_cast<double>(planner.plan(experiment, data, unlimited_capacity).peak_reserved))) {}

  CutAnswer answer(const Experiment& changed) {
    const FitAnswer answer = planner.answer(changed, data, capacity);
    return answer == FitAnswer::fits           ? CutAnswer::fits
           : answer == FitAnswer::does_not_fit ? CutAnswer::does_not_fit
                                               : CutAnswer::cannot_be;
  }
  CutAnswer answer_with(const std::string& override_text) {
    return answer(parse_experiment(yaml, "test.yaml", {override_text}));
  }
  std::vector<std::string> cuts() {
    std::vector<std::string> set;
    for (const ParameterCut& cut : parameter_cuts(experiment, [&](const Experiment& e) { return answer(e); })) {
      CHECK(answer_with(cut.set) == CutAnswer::fits);
      CHECK(resolved_yaml(cut.experiment) == resolved_yaml(parse_experiment(yaml, "test.yaml", {cut.set})));
      set.push_back(cut.set);
    }
    return set;
  }

  DescribedDevice device;
  MachineRates rates = assumed_cpu_rates(1);
  std::string yaml;
  Experiment experiment;
  DataDescription data;
  Planner planner;
  std::int64_t capacity;
};

std::int64_t value_in(const std::string& set) { return std::stoll(set.substr(set.find('=') + 1)); }

std::string with_value(const std::string& set, std::int64_t value) {
  return set.substr(0, set.find('=') + 1) + std::to_string(value);
}

}  // namespace

TEST_CASE("a model of a file is made smaller by its parameters: the largest value that fits, and not its classes") {
  CutModel model("model: {file: models/mlp.yaml, with: {width: 700, depth: 4}}\n", 0.6);
  const std::vector<std::string> cuts = model.cuts();
  REQUIRE(cuts.size() == 2);
  for (const std::string& cut : cuts) {
    INFO(cut);
    CHECK((cut.starts_with("model.with.width=") || cut.starts_with("model.with.depth=")));
    CHECK(model.answer_with(with_value(cut, value_in(cut) + 1)) == CutAnswer::does_not_fit);
  }
  CHECK(std::none_of(cuts.begin(), cuts.end(), [](const std::string& cut) { return cut.find("classes") != cut.npos; }));
}

TEST_CASE("values that a model does not take are passed over") {
  // Whose width 4 divides, and of whose depths there are four.
  CutModel mobile("model: {file: models/mobilenetv2.yaml, with: {width: 16, classes: 10, stem: cifar}}\n", 0.5);
  const std::vector<std::string> cuts = mobile.cuts();
  REQUIRE(cuts.size() == 1);
  CHECK(cuts[0].starts_with("model.with.width="));
  CHECK(value_in(cuts[0]) % 4 == 0);
  CHECK(mobile.answer_with(with_value(cuts[0], value_in(cuts[0]) + 4)) == CutAnswer::does_not_fit);

  CutModel residual("model: {file: models/resnet.yaml, with: {depth: 50, width: 16, classes: 10, stem: cifar}}\n", 0.7);
  const std::vector<std::string> depths = residual.cuts();
  CHECK(std::find(depths.begin(), depths.end(), "model.with.depth=18") != depths.end());
}

TEST_CASE("the defaults of a configuration's blocks are lowered where its layers follow from them") {
  CutModel model(
      "model:\n  blocks:\n    hidden: {parameters: {width: 600}, layers: [linear: {out: \"${width}\"}, relu]}\n"
      "    other: {parameters: {width: {default: 600, one_of: [20, 300, 600]}}, layers: [hidden: {width: "
      "\"${width}\"}]}\n"
      "  layers: [flatten, hidden, hidden, other, hidden: {width: 30}, linear: {out: 10}]\n",
      0.75);
  const std::vector<std::string> cuts = model.cuts();
  REQUIRE(cuts.size() == 2);
  CHECK(std::find(cuts.begin(), cuts.end(), "model.blocks.other.parameters.width.default=20") != cuts.end());
  CHECK(std::any_of(cuts.begin(), cuts.end(),
                    [](const std::string& cut) { return cut.starts_with("model.blocks.hidden.parameters.width="); }));
}

TEST_CASE("advice for a model of a file names its parameters first, each with what it needs") {
  CutModel model("model: {file: models/mlp.yaml, with: {width: 700, depth: 4}}\n", 0.3);
  const Advice advice = find_advice(model.planner, model.experiment, model.data, model.capacity);
  std::vector<std::string> set;
  for (const Change& fix : advice.fixes) {
    CHECK(model.planner.fits(parse_experiment(model.yaml, "test.yaml", fix.set), model.data, model.capacity));
    set.insert(set.end(), fix.set.begin(), fix.set.end());
  }
  CHECK(std::any_of(set.begin(), set.end(), [](const auto& word) { return word.starts_with("model.with.width="); }));
  CHECK(std::none_of(set.begin(), set.end(), [](const auto& word) { return word.starts_with("model.with.classes="); }));
}
