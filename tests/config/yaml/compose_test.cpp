#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "engine/config/diagnostic.h"
#include "engine/config/load_experiment.h"

namespace trainer {
namespace {

Experiment compose(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_experiment("model: {layers: [flatten, linear: {out: 10}]}\n" + text, "some/where/test.yaml", overrides);
}

std::string error_of_composing(const std::string& text) {
  try {
    compose(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

const std::string extends_folder = std::string(TRAINER_SOURCE_DIR) + "/tests/config/extends/";

}  // namespace

TEST_CASE("name and output default to the file's name") {
  const Experiment experiment = compose("");
  CHECK(experiment.name == "test");
  CHECK(experiment.output == "runs/test");
  CHECK(experiment.config_path == "some/where/test.yaml");
}

TEST_CASE("references take values of keys, of defaults and of the environment") {
  setenv("TRAINER_TEST_VALUE", "from-outside", 1);
  const Experiment experiment = compose(
      "name: ${optimizer.type}-${train.batch_size}\n"
      "output: ${env:TRAINER_TEST_VALUE}/${name}/${model.layers.1.linear.out}-${optimizer.lr}\n"
      "optimizer: adamw\n"
      "train: {epochs: 3, steps: \"${train.epochs}\"}\n");
  CHECK(experiment.name == "adamw-32");
  CHECK(experiment.output == "from-outside/adamw-32/10-0.001");
  CHECK(experiment.train.steps == 3);
}

TEST_CASE("two dollars stand for one that refers to nothing") {
  CHECK(compose("name: $${name}\n").name == "${name}");
  CHECK(compose("name: cost$\n").name == "cost$");
}

TEST_CASE("an override may hold a reference, and be referred to") {
  CHECK(compose("output: runs/${seed}\n", {"seed=7"}).output == "runs/7");
  CHECK(compose("", {"name=s${seed}", "seed=4"}).name == "s4");
}

TEST_CASE("references that grow without end are refused") {
  std::string text = "name: " + std::string(100, 'a') + "\n";
  text += "output: \"";
  for (int i = 0; i < 60; ++i) text += "${name}";
  CHECK(error_of_composing(text + "\"\n").find("references make this longer than 4096 bytes") != std::string::npos);
}

TEST_CASE("a child's keys go before its base's; maps are merged and lists replaced") {
  const Experiment child = load_experiment(extends_folder + "deeper/child.yaml");
  CHECK(child.name == "child");
  CHECK(child.optimizer.lr.number == 0.5);
  CHECK(child.optimizer.momentum == 0.9);
  CHECK(child.train.epochs == 7);
  CHECK(child.train.batch_size == 32);
  const Experiment grandchild = load_experiment(extends_folder + "grandchild.yaml", {"train.epochs=9"});
  CHECK(std::get<LinearSpec>(grandchild.layers.at(1).spec).out == 3);
  CHECK(grandchild.optimizer.lr.number == 0.5);
  CHECK(grandchild.optimizer.momentum == 0.0);
  CHECK(grandchild.train.epochs == 9);
}

TEST_CASE("files that extend one another in a circle, or too deep, are refused") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "trainer_test_extends";
  fs::create_directories(folder);
  std::ofstream(folder / "a.yaml") << "extends: b.yaml\n";
  std::ofstream(folder / "b.yaml") << "extends: ./a.yaml\n";
  for (int i = 0; i < 20; ++i) {
    std::ofstream(folder / ("f" + std::to_string(i) + ".yaml")) << "extends: f" << i + 1 << ".yaml\n";
  }
  const auto error = [&](const char* name) -> std::string {
    try {
      load_experiment((folder / name).string());
    } catch (const ConfigError& wrong) {
      return wrong.what();
    }
    return "no error";
  };
  CHECK(error("a.yaml").find("'./a.yaml' extends itself in the end") != std::string::npos);
  CHECK(error("f0.yaml").find("more than 16 files extend one another") != std::string::npos);
  fs::remove_all(folder);
}

TEST_CASE("on, off, true and false are booleans where one is expected, and words elsewhere") {
  CHECK_FALSE(compose("memory: {preflight: off}\n").memory.preflight);
  CHECK(compose("memory: {preflight: on}\n").memory.preflight);
  CHECK_FALSE(compose("data: {shuffle: false}\n").data.shuffle);
  CHECK(compose("train: {amp: off, batch_size: all}\n").train.batch_size == BatchSize::Word::all);
  CHECK_NOTHROW(compose("train: {amp: false, checkpointing: off}\n"));
  CHECK(compose("name: no\n").name == "no");
  CHECK(compose("name: 010\n").name == "010");
}

TEST_CASE("sizes, intervals, pairs and devices are read in all their forms") {
  CHECK(compose("memory: {limit: 1500MB}\n").memory.limit == 1'500'000'000);
  CHECK(compose("memory: {limit: 4096}\n").memory.limit == 4096);
  const Experiment experiment = parse_experiment(
      "model: {layers: [conv2d: {out: 4, kernel: [3, 5], padding: 1}, maxpool2d: {kernel: 3}, avgpool2d: {kernel: 3, "
      "stride: 2}]}\ncheckpoint: {every: 2ep}\nschedule: {type: step, every: 50}\ndevice: cuda:1\n",
      "x.yaml");
  const auto& conv = std::get<Conv2dSpec>(experiment.layers.at(0).spec);
  CHECK(conv.kernel == Pair{3, 5});
  CHECK(conv.padding == Pair{1, 1});
  CHECK(std::get<MaxPool2dSpec>(experiment.layers.at(1).spec).stride == Pair{3, 3});
  CHECK(std::get<AvgPool2dSpec>(experiment.layers.at(2).spec).stride == Pair{2, 2});
  CHECK(experiment.checkpoint.every == 2);
  CHECK(experiment.checkpoint.every_in_epochs);
  CHECK(experiment.schedule.step_size == 50);
  CHECK_FALSE(experiment.schedule.step_size_in_epochs);
  CHECK(experiment.device.type == DeviceType::cuda);
  CHECK(experiment.device.index == 1);
}

TEST_CASE("the defaults of learning rate and weight decay follow the optimizer") {
  CHECK(compose("").optimizer.lr.number == 0.01);
  CHECK(compose("optimizer: adam\n").optimizer.lr.number == 0.001);
  CHECK(compose("optimizer: adam\n").optimizer.weight_decay.number == 0.0);
  CHECK(compose("optimizer: adamw\n").optimizer.weight_decay.number == 0.01);
  CHECK(compose("optimizer: {type: adamw, lr: 3, weight_decay: 0}\n").optimizer.weight_decay.number == 0.0);
}

TEST_CASE("files of images may have any number of channels") {
  const std::string data =
      "model: {layers: [flatten, linear: {out: 10}]}\ndata: {type: idx, root: a, normalize: {mean: "
      "[0.1, 0.2, 0.3], std: 1}";
  CHECK(parse_experiment(data + "}", "a.yaml").data.mean.size() == 3);
  CHECK(parse_experiment(data + ", shape: [4, 4, 3]}", "a.yaml").data.mean.size() == 3);
  CHECK_THROWS_AS(parse_experiment(data + ", shape: [4, 4, 2]}", "a.yaml"), ConfigError);
}

TEST_CASE("labels need not be named where the images are") {
  const Experiment experiment = parse_experiment(
      "model: {layers: [flatten, linear: {out: 10}]}\ndata: {type: idx, train: a-images, validation: b-images}",
      "a.yaml");
  CHECK(experiment.data.train == "a-images");
  CHECK(experiment.data.train_labels.empty());
}

TEST_CASE("layers keep their kind, name and place in the file") {
  const Experiment experiment =
      parse_experiment("model:\n  layers:\n    - flatten\n    - linear: {out: 3, name: head-1}\n", "x.yaml");
  CHECK(experiment.layers.at(1).kind == "linear");
  CHECK(experiment.layers.at(1).name == "head-1");
  CHECK(experiment.layers.at(1).location == SourceLocation{"x.yaml", 4, 7, 6});
}

TEST_CASE("files with CRLF line ends or a byte order mark read as others do") {
  const Experiment experiment = parse_experiment("\xEF\xBB\xBFseed: 5\r\nmodel: {layers: [flatten]}\r\n", "x.yaml");
  CHECK(experiment.seed == 5);
}

TEST_CASE("anchors and aliases stand for values") {
  const Experiment experiment = parse_experiment(
      "model:\n  layers:\n    - &block {sequential: {layers: [linear: {out: 4}, relu]}}\n    - *block\n", "x.yaml");
  REQUIRE(experiment.layers.size() == 2);
  CHECK(std::get<SequentialSpec>(experiment.layers.at(1).spec).layers.size() == 2);
  const Experiment scalars =
      compose("optimizer: {lr: &rate 0.5, weight_decay: *rate}\nname: &name \"a b\"\noutput: *name\n");
  CHECK(scalars.optimizer.weight_decay.number == 0.5);
  CHECK(scalars.output == "a b");
  CHECK(error_of_composing("seed: &seed one\n").find("test.yaml:2:13: error: 'seed': 'one' is not an integer") !=
        std::string::npos);
}

TEST_CASE("the warmup schedule is a constant one with a rise before it") {
  const Experiment experiment = compose("schedule: {type: warmup, warmup_steps: 10}\n");
  CHECK(experiment.schedule.type == ScheduleType::constant);
  CHECK(experiment.schedule.warmup_steps == 10);
}

}  // namespace trainer
