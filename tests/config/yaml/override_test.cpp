#include <catch2/catch.hpp>

#include "engine/config/diagnostic.h"
#include "engine/config/load_experiment.h"

namespace trainer {
namespace {

constexpr std::string_view base =
    "name: base\n"
    "model:\n"
    "  layers:\n"
    "    - flatten\n"
    "    - repeat: {times: 2, layers: [linear: {out: 5}, dropout]}\n"
    "    - linear: {out: 10}\n"
    "optimizer: {type: sgd, lr: 0.1, momentum: 0.9}\n"
    "schedule: cosine\n"
    "loss: {cross_entropy: {label_smoothing: 0.1}}\n";

Experiment with(const std::vector<std::string>& overrides) { return parse_experiment(base, "base.yaml", overrides); }

std::string error_of_override(const std::vector<std::string>& overrides) {
  try {
    with(overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a dotted override sets a key that the file has, or has not") {
  const Experiment experiment = with({"optimizer.lr=0.5", "train.batch_size=64", "train.early_stopping.patience=3",
                                      "data.normalize.mean=[0.5]", "data.normalize.std=0.25", "memory.limit=2 GiB"});
  CHECK(experiment.optimizer.lr.number == 0.5);
  CHECK(experiment.optimizer.momentum == 0.9);
  CHECK(experiment.train.batch_size == 64);
  CHECK(experiment.train.early_stopping.patience == 3);
  CHECK(experiment.data.mean == std::vector<double>{0.5});
  CHECK(experiment.data.std == std::vector<double>{0.25});
  CHECK(experiment.memory.limit == std::int64_t{2} << 30);
}

TEST_CASE("an override reaches into lists by position") {
  const Experiment experiment = with({"model.layers.1.repeat.times=5", "model.layers.1.repeat.layers.0.linear.out=7",
                                      "model.layers.1.repeat.layers.1.dropout.p=0.25", "model.layers.0=relu"});
  const auto& repeat = std::get<RepeatSpec>(experiment.layers.at(1).spec);
  CHECK(repeat.times == 5);
  CHECK(std::get<LinearSpec>(repeat.layers.at(0).spec).out == 7);
  CHECK(std::get<DropoutSpec>(repeat.layers.at(1).spec).p == 0.25);
  CHECK(experiment.layers.at(0).kind == "relu");
}

TEST_CASE("an override reaches into what the file wrote in short") {
  const Experiment experiment = with({"schedule.warmup_steps=100", "loss.label_smoothing=0.2", "device=cpu"});
  CHECK(experiment.schedule.type == ScheduleType::cosine);
  CHECK(experiment.schedule.warmup_steps == 100);
  CHECK(experiment.losses.front().label_smoothing == 0.2);
  CHECK(experiment.device.type == DeviceType::cpu);
}

TEST_CASE("an override replaces a whole section, and null takes a key back to its default") {
  const Experiment replaced = with({"optimizer={type: adamw}"});
  CHECK(replaced.optimizer.type == OptimizerType::adamw);
  CHECK(replaced.optimizer.lr.number == 0.001);
  CHECK(replaced.optimizer.momentum == 0.0);
  const Experiment reset = with({"optimizer.type=adam", "optimizer.momentum=null", "optimizer.lr=~", "name=null"});
  CHECK(reset.optimizer.lr.number == 0.001);
  CHECK(reset.name == "base");
}

TEST_CASE("of two overrides of one key the later holds, and values may have '=' in them") {
  const Experiment experiment = with({"seed=1", "seed=2", "output=runs/a=b"});
  CHECK(experiment.seed == 2);
  CHECK(experiment.output == "runs/a=b");
}

TEST_CASE("a mistake in an override names the argument and points into it") {
  CHECK(error_of_override({"train.batch_sise=64"})
            .find("argument 'train.batch_sise=64': error: unknown key 'batch_sise' in "
                  "'train'\n"
                  "  | train.batch_sise=64\n"
                  "  |       ^~~~~~~~~~\n") == 0);
  CHECK(error_of_override({"train.epochs=many"}) ==
        "argument 'train.epochs=many': error: 'train.epochs': 'many' is not an integer\n"
        "  | train.epochs=many\n"
        "  |              ^~~~\n"
        "  expected: an integer of at least 0");
  CHECK(error_of_override({"optimizer.lr=[1, 2, 3]"}).find("'optimizer.lr' cannot be a list") != std::string::npos);
}

TEST_CASE("an override that cannot be set says why") {
  CHECK(error_of_override({"train.epochs"}).find("no '=' in it") != std::string::npos);
  CHECK(error_of_override({"train.epochs="}).find("no value after '='") != std::string::npos);
  CHECK(error_of_override({"=3"}).find("a part of the key is missing") != std::string::npos);
  CHECK(error_of_override({"train..epochs=3"}).find("a part of the key is missing") != std::string::npos);
  CHECK(error_of_override({"tr ain=3"}).find("'tr ain' is not a key") != std::string::npos);
  CHECK(error_of_override({"seed=[1"}).find("'[' is never closed") != std::string::npos);
  CHECK(error_of_override({"seed=1\n2"}).find("goes over several lines") != std::string::npos);
  CHECK(error_of_override({"extends=other.yaml"}).find("'extends' can only be written in a file") != std::string::npos);
  CHECK(error_of_override({"model.layers.3=relu"}).find("'model.layers' is a list of 3 elements") != std::string::npos);
  CHECK(error_of_override({"model.layers.x=relu"}).find("a position from 0 to 2") != std::string::npos);
  CHECK(error_of_override({"model.layers.2.conv2d.out=3"}).find("did you mean 'model.layers.2.linear.out'?") !=
        std::string::npos);
  CHECK(error_of_override({"model.layers.0.linear.out=3"}).find("'model.layers.0' is 'flatten', which has no keys") !=
        std::string::npos);
  CHECK(error_of_override({"name.first=a"}).find("'name' is 'base', which has no keys") != std::string::npos);
}

TEST_CASE("a layer is addressed by its name as by its position") {
  const std::string text =
      "model:\n  layers:\n    - flatten\n    - linear: {out: 4, name: hidden}\n    - residual:\n        name: block\n"
      "        layers:\n          - linear: {out: 4, name: inner}\n    - linear: {out: 2}\n";
  const auto out_of = [](const LayerSpec& layer) { return std::get<LinearSpec>(layer.spec).out; };
  const Experiment changed = parse_experiment(
      text, "base.yaml", {"model.layers.hidden.linear.out=9", "model.layers.block.residual.layers.inner.linear.out=7"});
  CHECK(out_of(changed.layers[1]) == 9);
  CHECK(changed.layers[1].name == "hidden");
  CHECK(out_of(std::get<ResidualSpec>(changed.layers[2].spec).layers[0]) == 7);
  const auto mistake = [&](const std::string& argument) -> std::string {
    try {
      parse_experiment(text, "base.yaml", {argument});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(mistake("model.layers.hiden.linear.out=9"),
             Catch::Contains("'model.layers' is a list of 4 elements") &&
                 Catch::Contains("a position from 0 to 3, or a layer's name") &&
                 Catch::Contains("did you mean 'model.layers.hidden.linear.out'?"));
  CHECK_THAT(mistake("model.layers.inner.linear.out=9"), Catch::Contains("or a layer's name"));
}

TEST_CASE("mistakes of the file and of several overrides are told together, arguments last") {
  const std::string message =
      error_of_override({"sed=1", "train.epochs=-1", "optimizer.nesterov=true", "optimizer.momentum=2"});
  CHECK(message.find("argument 'sed=1'") == 0);
  CHECK(message.find("argument 'train.epochs=-1'") != std::string::npos);
  CHECK(message.find("argument 'optimizer.momentum=2'") != std::string::npos);
  // Whether momentum is above 0 cannot be told while it is wrong.
  CHECK(message.find("nesterov") == std::string::npos);
}

}  // namespace trainer
