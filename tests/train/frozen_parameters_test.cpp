#include "engine/graph/trained_layers.h"

#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/cpu/cpu_device.h"
#include "engine/program/compile.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

constexpr const char* frozen_network = R"(
data: {type: synthetic, shape: [8, 8, 2], classes: 3, samples: 12, validation_samples: 4}
model:
  groups: {stem: [stem, norm], body: [body], head: rest}
  layers:
    - conv2d: {out: 4, kernel: 3, padding: 1, name: stem}
    - batchnorm2d: {name: norm}
    - relu
    - conv2d: {out: 4, kernel: 3, padding: 1, name: body}
    - relu
    - flatten
    - linear: {out: 3, name: head}
train: {batch_size: 4, steps: 2}
)";

DataDescription description() {
  DataDescription data;
  data.inputs = {{.type = {DType::f32, Shape{8, 8, 2}}, .mean = {}, .std = {}}};
  data.target = {DType::i32, Shape(std::vector<std::int64_t>{})};
  data.num_outputs = 3;
  data.num_train = 12;
  data.num_validation = 4;
  return data;
}

Program compiled(const std::string& keys) {
  const Experiment experiment = parse_experiment(frozen_network + keys, "test.yaml");
  return compile(experiment, description(), *make_cpu_device(1));
}

std::vector<std::string> trained(const std::string& keys) {
  std::vector<std::string> names;
  for (const Parameter& parameter : compiled(keys).parameters)
    if (parameter.trainable) names.push_back(parameter.name);
  return names;
}

std::string refusal_of(const std::string& keys) {
  try {
    compiled(keys);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "taken";
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the last entry of freeze that means a layer decides whether it is trained") {
  CHECK(trained("").size() == 8);
  CHECK(trained("freeze: [stem, norm]\n") == Names{"body.weight", "body.bias", "head.weight", "head.bias"});
  CHECK(trained("freeze: [conv2d, batchnorm2d]\n") == Names{"head.weight", "head.bias"});
  CHECK(trained("freeze: ['*', '!head']\n") == Names{"head.weight", "head.bias"});
  CHECK(trained("freeze: {to: head}\n") == Names{"head.weight", "head.bias"});
  CHECK(trained("freeze: {to: -1}\n") == Names{"head.weight", "head.bias"});
  CHECK(trained("freeze: {to: body}\n") == Names{"body.weight", "body.bias", "head.weight", "head.bias"});
  CHECK(trained("freeze: ['*', '!to:body']\n") == Names{"body.weight", "body.bias", "head.weight", "head.bias"});
  CHECK(trained("freeze: {group: [stem, head]}\n") == Names{"body.weight", "body.bias"});
  CHECK(trained("freeze: all\nfreeze_norms: off\n") == Names{"norm.weight", "norm.bias"});
}

TEST_CASE("frozen parameters have neither gradients nor state, and nothing is kept in front of what is trained") {
  const Program program = compiled("freeze: {to: head}\noptimizer: adamw\n");
  for (const Buffer& buffer : program.buffers) {
    const bool is_of_head = buffer.name.starts_with("head.");
    if (buffer.category == Category::gradient || buffer.category == Category::optimizer_state) CHECK(is_of_head);
  }
  // No op of the backward pass is of a layer that is frozen.
  const std::vector<Layer>& layers = program.layers;
  for (const OpCall& call : program.calls) {
    if (call.phase != Phase::backward || call.layer == no_layer) continue;
    const std::string& path = layers[static_cast<std::size_t>(call.layer)].path;
    CHECK((path == "head" || path == "loss"));
  }
}

TEST_CASE("batch norms of frozen layers go by what freeze_norms says") {
  const auto kinds = [](const Program& program) {
    int by_batch = 0, by_statistics = 0;
    for (const OpCall& call : program.calls) {
      by_batch += call.op.kind == OpKind::batchnorm2d ? 1 : 0;
      by_statistics += call.op.kind == OpKind::batchnorm2d_inference ? 1 : 0;
    }
    return std::pair{by_batch, by_statistics};
  };
  const auto trained_norms = kinds(compiled("freeze: [stem, norm]\n"));
  const auto frozen_norms = kinds(compiled("freeze: [stem, norm]\nfreeze_norms: on\n"));
  CHECK(trained_norms.first > 0);
  CHECK(frozen_norms.first == 0);
  CHECK(frozen_norms.second > trained_norms.second);
}

TEST_CASE("a freeze that means nothing is told with what there is") {
  CHECK_THAT(refusal_of("freeze: [stam]\n"), Contains("no layer with parameters matches 'stam'") &&
                                                 Contains("did you mean 'stem'") && Contains("test.yaml:14"));
  CHECK_THAT(refusal_of("freeze: [relu]\n"), Contains("no layer with parameters matches 'relu'"));
  CHECK_THAT(refusal_of("freeze: {to: hed}\n"), Contains("no layer group 'hed'") && Contains("did you mean 'head'"));
  CHECK_THAT(refusal_of("freeze: {to: 3}\n"), Contains("no layer group '3'"));
  CHECK_THAT(refusal_of("freeze: all\n"), Contains("'freeze' leaves no parameters to train"));
}

TEST_CASE("a freeze that means nothing is told where it is written, also in a stage") {
  const auto refusal_in_last_stage = [](const std::string& stages, const std::vector<std::string>& overrides = {}) {
    const Experiment whole = parse_experiment(frozen_network + stages, "test.yaml", overrides);
    try {
      compile(*whole.stages.back().experiment, description(), *make_cpu_device(1));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK_THAT(refusal_of("freeze: [stem, stam]\n"), Contains("test.yaml:14:16"));
  CHECK_THAT(refusal_of("freeze: {group: [stem, hed]}\n"), Contains("test.yaml:14:24"));
  const std::string first = "stages:\n  - {name: one, freeze: [stem]}\n";
  CHECK_THAT(refusal_in_last_stage(first + "  - {name: two, freeze: [body, stam]}\n"),
             Contains("test.yaml:16:32") && Contains("matches 'stam'"));
  CHECK_THAT(refusal_in_last_stage(first + "  - {name: two, unfreeze: [stam]}\n"),
             Contains("test.yaml:16:28") && Contains("matches 'stam'") && !Contains("'freeze'"));
  CHECK_THAT(refusal_in_last_stage(first + "  - {name: two, freeze: {to: haed}}\n"),
             Contains("test.yaml:16:30") && Contains("did you mean 'head'"));
  CHECK_THAT(refusal_in_last_stage(first + "  - {name: two, unfreeze: {group: haed}}\n"), Contains("test.yaml:16:35"));
  // What a stage inherits is told where the file has it.
  CHECK_THAT(refusal_in_last_stage("freeze: [stam]\nstages:\n  - {name: one, freeze: [body]}\n"),
             Contains("test.yaml:14:10"));
  CHECK_THAT(refusal_in_last_stage(first, {"stages.0.unfreeze=[stam]"}),
             Contains("argument 'stages.0.unfreeze=[stam]'"));
  CHECK_THAT(refusal_in_last_stage(first + "  - {name: two, freeze: all}\n"),
             Contains("test.yaml:16:25") && Contains("leaves no parameters to train"));
}

TEST_CASE("layer groups hold each parameter once") {
  const auto refusal_of_groups = [](const std::string& groups) {
    std::string yaml = frozen_network;
    const std::string former = "{stem: [stem, norm], body: [body], head: rest}";
    yaml.replace(yaml.find(former), former.size(), groups);
    try {
      compile(parse_experiment(yaml, "test.yaml"), description(), *make_cpu_device(1));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK_THAT(refusal_of_groups("{a: [stem, norm], b: [body]}"), Contains("layer 'head' is in none of model.groups"));
  CHECK_THAT(refusal_of_groups("{a: [stem], b: [conv2d], c: rest}"), Contains("layer 'stem' is in the groups a and b"));
  CHECK_THAT(refusal_of_groups("{a: [stemm], b: rest}"), Contains("group 'a'") && Contains("stemm"));
  CHECK_THAT(refusal_of_groups("{a: rest, b: rest}"), Contains("two groups are the rest"));
  CHECK_THAT(refusal_of_groups("{slice: rest}"), Contains("cannot name a group"));
  CHECK_THAT(refusal_of_groups("[a]"), Contains("not a map of groups"));
}

TEST_CASE("numbers of groups are fastai's slices, or as named") {
  const std::vector<LayerGroup> groups = {{"a", {}}, {"b", {}}, {"c", {}}};
  const auto numbers = [&](GroupNumbers given) { return numbers_of_groups(given, groups, "optimizer.lr"); };
  CHECK(numbers({.number = 0.5}) == std::vector<double>{0.5, 0.5, 0.5});
  CHECK(numbers({.number = 1, .slice = {1}}) == std::vector<double>{0.1, 0.1, 1});
  const std::vector<double> slice = numbers({.number = 1e-2, .slice = {1e-4, 1e-2}});
  CHECK(slice[0] == 1e-4);
  CHECK(slice[1] == Approx(1e-3));
  CHECK(slice[2] == 1e-2);
  CHECK(numbers({.number = 3, .groups = {{"c", 3}, {"a", 1}, {"b", 2}}}) == std::vector<double>{1, 2, 3});
  CHECK_THROWS_AS(numbers({.number = 3, .groups = {{"c", 3}}}), ConfigError);
  CHECK_THROWS_AS(numbers({.number = 3, .groups = {{"a", 1}, {"b", 2}, {"d", 3}}}), ConfigError);
  CHECK_THROWS_AS(numbers_of_groups({.number = 1, .slice = {1}}, {}, "optimizer.lr"), ConfigError);
}
