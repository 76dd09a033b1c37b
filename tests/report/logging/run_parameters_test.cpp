#include "engine/report/logging/run_parameters.h"

#include <catch2/catch.hpp>
#include <map>

using namespace trainer;

TEST_CASE("a run is compared by the usual keys and by what the command line set, as its configuration has it") {
  using Kind = Hyperparameter::Kind;
  const std::string config = R"({"name": "x", "seed": 3, "output": "runs/x", "logging": {"tensorboard": true},
    "optimizer": {"type": "adam", "lr": {"head": 0.1}}, "train": {"batch_size": 64, "amp": "off"},
    "memory": {"in_place": false}, "model": {"layers": ["flatten", {"linear": {"out": 10}}]}})";
  const std::vector<std::string> overrides = {"train.batch_size=064",       "model.layers.1.linear.out=10",
                                              "memory.in_place=no",         "output=runs/x",
                                              "logging.tensorboard=true",   "model.with.depth=18",
                                              "model.with.stem=\"a\nb\"",   "model.layers.99.linear.out=1",
                                              "train.batch_size=64",        "=",
                                              "model.layers.x.linear=1e999"};
  std::map<std::string, Hyperparameter> found;
  for (const Hyperparameter& each : run_parameters(config, overrides)) {
    CHECK(!found.contains(each.name));
    found[each.name] = each;
  }
  CHECK(found.at("train.batch_size").number == 64);
  CHECK(found.at("train.batch_size").kind == Kind::number);
  CHECK(found.at("model.layers.1.linear.out").number == 10);
  CHECK(found.at("memory.in_place").kind == Kind::boolean);
  CHECK(found.at("memory.in_place").number == 0);
  CHECK(found.at("model.with.depth").number == 18);
  CHECK(found.at("model.with.stem").text == "\"a\nb\"");
  CHECK(found.at("model.layers.99.linear.out").number == 1);
  CHECK(found.at("model.layers.x.linear").text == "1e999");
  CHECK(found.at("optimizer.type").text == "adam");
  CHECK(found.at("optimizer.lr").text == R"({"head":0.1})");
  CHECK(found.at("seed").number == 3);
  CHECK(!found.contains("output"));
  CHECK(!found.contains("logging.tensorboard"));
  CHECK(!found.contains("loss.type"));
}
