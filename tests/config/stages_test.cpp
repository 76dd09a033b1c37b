#include "engine/config/stages.h"

#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"
#include "tests/refusal.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

constexpr const char* base = R"(
name: staged
data: {type: synthetic, shape: [4], classes: 3, samples: 12}
model:
  groups: {body: rest, head: [head]}
  layers: [linear: {out: 8, name: body}, relu, linear: {out: 3, name: head}]
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
schedule: {type: step, every: 10}
train: {batch_size: 4, epochs: 2}
)";

Experiment staged(const std::string& stages, const std::vector<std::string>& overrides = {}) {
  return parse_experiment(base + stages, "test.yaml", overrides);
}

std::string refusal_of(const std::string& stages) {
  try {
    staged(stages);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "taken";
}

using Entries = std::vector<std::string>;

}  // namespace

TEST_CASE("a stage has the keys of the file, those of the stages before it and its own") {
  const Experiment whole = staged(R"(
stages:
  - name: one
    train: {epochs: 5}
  - {optimizer: {lr: 0.01}, schedule: one_cycle}
  - {name: three, optimizer: adamw, train: {batch_size: 2}}
)");
  REQUIRE(whole.stages.size() == 3);
  CHECK(whole.train.epochs == 2);
  CHECK(whole.stage.empty());
  const Experiment &one = *whole.stages[0].experiment, &two = *whole.stages[1].experiment,
                   &three = *whole.stages[2].experiment;
  CHECK((one.stage == "one" && one.train.epochs == 5 && one.train.batch_size == 4 && one.optimizer.lr.number == 0.1));
  CHECK((two.stage == "stage-2" && two.train.epochs == 5 && two.optimizer.lr.number == 0.01));
  CHECK(two.optimizer.momentum == 0.9);
  // Another type begins its section anew: the keys of the step schedule, and of SGD, are gone.
  CHECK(two.schedule.type == ScheduleType::one_cycle);
  CHECK((three.optimizer.type == OptimizerType::adamw && three.optimizer.lr.number == 0.001));
  CHECK((three.schedule.type == ScheduleType::one_cycle && three.train.batch_size == 2));
  CHECK(three.override_prefix == "stages.2.");
}

TEST_CASE("what follows from a key that a stage changes changes with it") {
  const Experiment whole = parse_experiment(R"(
seed: 3
data: {type: synthetic, shape: [4], classes: 3, samples: 12}
model: {layers: [linear: {out: 3}]}
train: {batch_size: 4, accumulation_steps: 1, eval_batch_size: "${train.batch_size}"}
stages: [{train: {batch_size: 6}}, {name: last}]
)",
                                            "test.yaml");
  CHECK(whole.train.eval_batch_size == 4);
  CHECK(whole.stages[0].experiment->train.eval_batch_size == 6);
  CHECK(whole.stages[1].experiment->train.eval_batch_size == 6);
}

TEST_CASE("freeze and unfreeze of a stage go on the list of those before it") {
  const Experiment whole = staged(R"(
freeze: [body]
stages:
  - {name: a}
  - {name: b, freeze: {to: head}}
  - {name: c, unfreeze: {group: body}}
  - {name: d, unfreeze: all, freeze: ["*"]}
  - {name: e, unfreeze: [head]}
  - {name: f, unfreeze: all}
)");
  const auto entries = [&](std::size_t stage) { return whole.stages[stage].experiment->freeze.entries; };
  CHECK(entries(0) == Entries{"body"});
  CHECK(entries(1) == Entries{"body", "to:head"});
  CHECK(entries(2) == Entries{"body", "to:head", "!group:body"});
  CHECK(entries(3) == Entries{"*"});
  CHECK(entries(4) == Entries{"*", "!head"});
  CHECK(entries(5).empty());
  CHECK_FALSE(whole.stages[0].freezes_otherwise);
  CHECK(whole.stages[5].freezes_otherwise);
}

TEST_CASE("a stage says what becomes of the optimizer's state beside its other keys") {
  const Experiment whole = staged(R"(
stages:
  - {optimizer: keep}
  - {optimizer: clear}
  - {optimizer: {clear: [head], lr: 0.5}}
  - {optimizer: {clear: true}}
  - {optimizer: {lr: 0.25}}
)");
  CHECK(whole.stages[0].state == StateCarry::keep);
  CHECK(whole.stages[1].state == StateCarry::clear);
  CHECK((whole.stages[2].state == StateCarry::keep && whole.stages[2].cleared_groups == Entries{"head"}));
  CHECK(whole.stages[2].experiment->optimizer.lr.number == 0.5);
  CHECK(whole.stages[3].state == StateCarry::clear);
  CHECK(whole.stages[4].state == StateCarry::unless_frozen_otherwise);
  CHECK(whole.stages[4].experiment->optimizer.momentum == 0.9);
}

TEST_CASE("the resolved configuration of stages reads back as the same stages") {
  const Experiment whole = staged(R"(
freeze: [body]
freeze_norms: on
stages:
  - {name: head, optimizer: {lr: {slice: [0.001, 0.1]}}}
  - {name: all, unfreeze: all, schedule: {type: one_cycle, momentum: [0.85, 0.95]}, optimizer: {clear: [body]}}
  - {name: slow, optimizer: {lr: {body: 0.001, head: 0.01}, weight_decay: {slice: 0.1}}, memory: {limit: 1GiB}}
  - {name: fast, memory: {limit: null}, optimizer: keep}
)");
  const std::string yaml = resolved_yaml(whole);
  const Experiment again = parse_experiment(yaml, "test.yaml");
  CHECK(resolved_yaml(again) == yaml);
  REQUIRE(again.stages.size() == whole.stages.size());
  for (std::size_t i = 0; i < whole.stages.size(); ++i) {
    CHECK(again.stages[i].experiment->resolved_json == whole.stages[i].experiment->resolved_json);
    CHECK(again.stages[i].state == whole.stages[i].state);
    CHECK(again.stages[i].cleared_groups == whole.stages[i].cleared_groups);
    CHECK(again.stages[i].freezes_otherwise == whole.stages[i].freezes_otherwise);
  }
}

TEST_CASE("fine_tune is two stages: the last group alone, then all of them at a slice of half the rate") {
  const Experiment whole = staged("stages: {fine_tune: {epochs: 3, lr: 0.004}}\n");
  REQUIRE(whole.stages.size() == 2);
  const Experiment &frozen = *whole.stages[0].experiment, &tuned = *whole.stages[1].experiment;
  CHECK((frozen.stage == "frozen" && frozen.freeze.entries == Entries{"to:-1"}));
  CHECK((frozen.train.epochs == 1 && frozen.optimizer.lr.slice == std::vector<double>{0.004}));
  CHECK((frozen.schedule.type == ScheduleType::one_cycle && frozen.schedule.warmup_fraction == 0.99));
  CHECK((tuned.train.epochs == 3 && tuned.freeze.entries.empty()));
  CHECK(tuned.optimizer.lr.slice == std::vector<double>{0.00002, 0.002});
  CHECK((tuned.schedule.warmup_fraction == 0.3 && tuned.schedule.start_divisor == 5));
  CHECK(frozen.freeze.norms == FrozenNorms::train);
  // Arguments reach what it stands for, and it may be an entry of the list.
  const Experiment reached = staged("stages: {fine_tune: {epochs: 3}}\n", {"stages.1.train.epochs=7"});
  CHECK(reached.stages[1].experiment->train.epochs == 7);
  CHECK(
      staged("stages: {fine_tune: {epochs: 3}}\n", {"stages.fine_tune.epochs=4"}).stages[1].experiment->train.epochs ==
      4);
  const Experiment entry = staged(R"(
stages:
  - fine_tune: {epochs: 3}
  - {name: more, train: {epochs: 1}}
  - predict: {inputs: [x.png], output: rows.csv}
)",
                                  {"stages.2.train.epochs=9"});
  REQUIRE(entry.stages.size() == 3);
  CHECK((entry.stages[1].name == "fine-tune" && entry.stages[2].experiment->train.epochs == 9));
  CHECK(entry.predictions.size() == 1);
}

TEST_CASE("a stage that counts in epochs drops the steps of a former one") {
  const Experiment whole = staged(R"(
stages: [{train: {steps: 3}}, {train: {epochs: 4}}, {train: {epochs: 1, steps: 2}}, {train: {batch_size: 2}}]
)");
  const auto steps_of = [&](std::size_t i) { return whole.stages[i].experiment->train.steps; };
  CHECK(steps_of(0) == 3);
  CHECK_FALSE(steps_of(1).has_value());
  CHECK(whole.stages[1].experiment->train.epochs == 4);
  CHECK(steps_of(2) == 2);
  CHECK(steps_of(3) == 2);
  const Experiment again = parse_experiment(resolved_yaml(whole), "again.yaml");
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(again.stages[i].experiment->train.steps == steps_of(i));
    CHECK(again.stages[i].experiment->train.epochs == whole.stages[i].experiment->train.epochs);
  }
}

TEST_CASE("arguments reach into stages, and those of the whole go before them") {
  const Experiment whole = staged("stages: [{name: a, train: {epochs: 3}}, {name: b}]\n",
                                  {"stages.0.train.epochs=7", "stages.1.optimizer.lr=0.5", "train.batch_size=6"});
  CHECK(whole.stages[0].experiment->train.epochs == 7);
  CHECK(whole.stages[1].experiment->train.epochs == 7);
  CHECK(whole.stages[1].experiment->optimizer.lr.number == 0.5);
  CHECK(whole.stages[0].experiment->train.batch_size == 6);
  const Experiment again = read_again(*whole.stages[1].experiment, "train.batch_size=2");
  CHECK((again.stage == "b" && again.train.batch_size == 2 && again.optimizer.lr.number == 0.5));
}

TEST_CASE("what no stage can change or say is a mistake at its place") {
  CHECK_THAT(refusal_of("stages: {train: {}}\n"), Contains("'stages' is not a list"));
  CHECK_THAT(refusal_of("stages: [3]\n"), Contains("test.yaml:10:10") && Contains("this is no stage"));
  CHECK_THAT(refusal_of("stages: [{output: x}]\n"), Contains("a stage cannot change 'output'"));
  CHECK_THAT(refusal_of("stages: [{seed: 1}]\n"), Contains("a stage cannot change 'seed'"));
  CHECK_THAT(refusal_of("stages: [{stages: []}]\n"), Contains("do not nest"));
  CHECK_THAT(refusal_of("stages: [{name: a}, {name: a}]\n"), Contains("two stages are called 'a'"));
  CHECK_THAT(refusal_of("stages: [{name: 'a/b'}]\n"), Contains("cannot name a stage"));
  CHECK_THAT(refusal_of("stages: [{trian: {epochs: 2}}]\n"),
             Contains("test.yaml:10:11") && Contains("unknown key") && Contains("did you mean 'train'"));
  CHECK_THAT(refusal_of("stages: [{train: {epochs: -2}}]\n"), Contains("below 0"));
  CHECK_THAT(refusal_of("stages: [{freeze: {till: head}}]\n"), Contains("unknown key 'till'"));
  CHECK_THAT(refusal_of("stages: [{freeze: 'a b'}]\n"), Contains("names no layers"));
  CHECK_THAT(refusal_of("stages: [{optimizer: {clear: 3.5}}]\n"), Contains("begins anew"));
  CHECK_THAT(refusal_of("stages: {fine_tune: {lr: 1}}\n"), Contains("needs 'epochs'"));
  CHECK_THAT(refusal_of("stages: {fine_tune: {epochs: null}}\n"), Contains("needs 'epochs'"));
  CHECK_THAT(refusal_of("stages: [{}, {optimizer: {clear: [haed]}}]\n"),
             Contains("test.yaml:10:35") && Contains("no layer group 'haed'") && Contains("did you mean 'head'"));
  CHECK_THAT(refusal_of("stages: [{optimizer: {clear: [head, bdoy]}}]\n"),
             Contains("test.yaml:10:37") && Contains("one of body, head"));
  CHECK_THAT(refusal_of("stages: [{optimizer: {clear: [[head]]}}]\n"), Contains("a list of layer groups"));
  CHECK_THAT(refusal_of("stages: [{unfreeze: {to: head}}]\n"), Contains("'unfreeze' has no 'to'"));
  CHECK_THAT(refusal_of("stages: [{name: '${oops}'}]\n"), Contains("cannot name a stage"));
  CHECK_THAT(refusal_of("stages: [{}, {name: 'a b', predict: {inputs: [x], output: y}}]\n"),
             Contains("cannot name a stage"));
  CHECK_THAT(refusal_of("stages: [{predict: {inputs: [x], output: y}}, {predict: {inputs: [z], output: y}}]\n"),
             Contains("two stages write 'y'"));
  CHECK_THAT(refusal_of("stages: {fine_tune: {epochs: 1, lrs: 1}}\n"), Contains("did you mean 'lr'"));
  CHECK_THAT(refusal_of("stages: [{schedule: {momentum: [0.9, 0.8], type: one_cycle}}]\n"),
             Contains("the lowest and the highest"));
  CHECK_THAT(refusal_of("stages: [{optimizer: {lr: {slice: [1, 2, 3]}}}]\n"), Contains("a slice that is no pair"));
  CHECK_THAT(refusal_of("stages: [{optimizer: {lr: {slice: [0, 2]}}}]\n"), Contains("multiples of one another"));
  CHECK_THAT(refusal_of("stages: [{optimizer: {lr: [1e-3, 1e-2]}}]\n"), Contains("slice"));
}

TEST_CASE("a stage that trains nothing is refused where it says so") {
  CHECK_THAT(refusal_of("stages: [{name: one}, {name: two, train: {epochs: 0}}, {name: three}]\n"),
             Contains("test.yaml:10:51") && Contains("stage 'two' trains nothing: its 'train.epochs' is 0") &&
                 !Contains("'three'"));
  CHECK_THAT(refusal_of("stages: [{train: {steps: 0}}]\n"), Contains("test.yaml:10:26") && Contains("'train.steps'"));
  // Epochs of a stage count, not the steps of the file.
  CHECK_NOTHROW(staged("stages: [{train: {epochs: 1}}]\n", {"train.steps=0"}));
  try {
    staged("stages: [{name: one}]\n", {"train.steps=0"});
    FAIL("taken");
  } catch (const ConfigError& error) {
    CHECK_THAT(error.what(), Contains("argument 'train.steps=0'") && Contains("stage 'one' trains nothing"));
  }
}

TEST_CASE("what is nearest to a key that only stages have is told with it") {
  CHECK_THAT(refusal_of("stages: [{unfreze: all}]\n"), Contains("test.yaml:10:11") &&
                                                           Contains("unknown key 'unfreze' in a stage") &&
                                                           Contains("did you mean 'unfreeze'?"));
  CHECK_THAT(refusal_of("stages: [{}, {predct: {inputs: [x], output: y}}]\n"), Contains("did you mean 'predict'?"));
  CHECK_THAT(refusal_of("stages: [{nmae: one}]\n"), Contains("did you mean 'name'?"));
  CHECK_THAT(refusal_of("stages: [{optimizer: {claer: true}}]\n"),
             Contains("test.yaml:10:23") && Contains("did you mean 'clear'?"));
  CHECK_THAT(refusal_of("stages: [{optimizer: kep}]\n"), Contains("did you mean 'keep'?"));
  CHECK_THAT(refusal_of("stages: [{optimizer: adm}]\n"), Contains("did you mean 'adam'?"));
  CHECK_THAT(refusal_of("stages: [{freze: [head]}]\n"), Contains("did you mean 'freeze'?"));
  CHECK_THAT(refusal_of("predict: {inputs: [x]}\n"), Contains("it is an entry of 'stages'"));
  CHECK_THAT(refusal_of("checkpoint: {clear: true}\n"), Contains("it is of 'optimizer' in an entry of 'stages'"));
}

TEST_CASE("a thousand stages are read in a moment") {
  std::string stages = "stages:\n";
  for (int i = 0; i < 1000; ++i) stages += "  - {train: {batch_size: " + std::to_string(1 + i % 7) + "}}\n";
  const Experiment whole = staged(stages);
  REQUIRE(whole.stages.size() == 1000);
  CHECK(whole.stages.back().name == "stage-1000");
  CHECK(whole.stages.back().experiment->train.batch_size == 1 + 999 % 7);
}

TEST_CASE("stages that predict stand behind those that train") {
  const Experiment whole = staged(R"(
stages:
  - {name: a}
  - predict: {data: {root: photos}, output: rows.csv}
  - {name: more, predict: {inputs: [x.png, y], output: more.csv, top: 3, lines: true}}
)");
  CHECK(whole.stages.size() == 1);
  REQUIRE(whole.predictions.size() == 2);
  CHECK((whole.predictions[0].name == "predict" && whole.predictions[0].inputs == Entries{"photos"}));
  CHECK((whole.predictions[1].name == "more" && whole.predictions[1].inputs == Entries{"x.png", "y"}));
  CHECK((whole.predictions[1].output == "more.csv" && whole.predictions[1].top == 3));
  CHECK((whole.predictions[1].lines && !whole.predictions[0].lines));
  const std::string yaml = resolved_yaml(whole);
  CHECK(resolved_yaml(parse_experiment(yaml, "test.yaml")) == yaml);
  CHECK_THAT(refusal_of("stages: [{predict: {inputs: [a], output: b}}, {name: c}]\n"), Contains("behind all others"));
  CHECK_THAT(refusal_of("stages: [{predict: {inputs: [a]}}]\n"), Contains("'predict' needs a file"));
  CHECK_THAT(refusal_of("stages: [{predict: {input: [a], output: b}}]\n"), Contains("did you mean 'inputs'"));
  CHECK_THAT(refusal_of("stages: [{predict: {inputs: [a], output: b}, train: {epochs: 1}}]\n"),
             Contains("stands beside 'predict'"));
  CHECK_THAT(refusal_of("stages: [{predict: {data: {rot: a}, output: b}}]\n"), Contains("where the inputs are"));
}

TEST_CASE("stages that are not purged know the stage whose cache they begin with, and say so when resolved") {
  const Experiment whole = staged(R"(
stages:
  - {name: a}
  - {name: b}
  - {name: c, purge: false, memory: {limit: 1GiB}}
  - {name: d}
  - {name: e, purge: true}
)");
  const std::vector<bool> purges = {true, true, false, true, true};
  for (std::size_t i = 0; i < purges.size(); ++i) {
    INFO(i);
    const Experiment& stage = *whole.stages[i].experiment;
    CHECK(whole.stages[i].purge == purges[i]);
    CHECK(stage.memory.allocator == AllocatorKind::automatic);
    CHECK(stage.kept_from == (purges[i] ? nullptr : whole.stages[i - 1].experiment));
    CHECK_FALSE(stage.memory.kept);
  }
  const std::string yaml = resolved_yaml(whole);
  CHECK_THAT(yaml, Contains("purge: false"));
  const Experiment again = parse_experiment(yaml, "test.yaml");
  CHECK(resolved_yaml(again) == yaml);
  for (std::size_t i = 0; i < purges.size(); ++i) CHECK(again.stages[i].purge == purges[i]);
  CHECK_FALSE(staged("stages: [{}, {name: last}]\n", {"stages.1.purge=false"}).stages[1].purge);
  CHECK(staged("stages: [{}, {name: last, purge: false}]\n", {"stages.1.purge=true"}).stages[1].purge);
  CHECK_THAT(refusal_of("stages: [{}, {train: {purge: false}}]\n"),
             Contains("there is no key 'purge' in 'train'") && Contains("it is of an entry of 'stages'"));
  CHECK(refusal_of("stages: [{memory: {allocator: caching, expandable_segments: true}}, {purge: false}]\n") == "taken");
  CHECK(refusal_of("stages: [{}, {purge: false, train: {batch_size: auto}}]\n") == "taken");
}
