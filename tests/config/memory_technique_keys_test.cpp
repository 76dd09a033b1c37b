#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/config/config_reference.h"
#include "engine/config/diagnostic.h"
#include "engine/config/load_experiment.h"

namespace trainer {
namespace {

Experiment parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_experiment("model: {layers: [flatten, linear: {out: 10}]}\n" + text, "test.yaml", overrides);
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

using Type = CheckpointingConfig::Type;
using Patterns = std::vector<std::string>;

void check_same(const CheckpointingConfig& first, const CheckpointingConfig& second) {
  CHECK(first.type == second.type);
  CHECK(first.every == second.every);
  CHECK(first.layers == second.layers);
  CHECK(first.budget == second.budget);
}

}  // namespace

TEST_CASE("off is the word whether it is written as off, in quotes or as false") {
  for (const char* word : {"off", "\"off\"", "false"}) {
    const std::string text = word;
    INFO(text);
    const Experiment experiment =
        parse("train: {amp: " + text + ", checkpointing: " + text + "}\nmemory: {offload: " + text + "}\n");
    CHECK(experiment.train.amp == Amp::off);
    CHECK(experiment.train.checkpointing.type == Type::off);
    CHECK(experiment.memory.offload.empty());
    const auto json = nlohmann::json::parse(experiment.resolved_json);
    CHECK(json["train"]["amp"] == "off");
    CHECK(json["train"]["checkpointing"] == "off");
    CHECK(json["memory"]["offload"] == "off");
    CHECK(parse("train: {amp: bf16}\n", {"train.amp=" + text}).train.amp == Amp::off);
  }
}

TEST_CASE("both types of mixed precision are read, and other programs' words are answered with ours") {
  CHECK(parse("train: {amp: fp16}\n").train.amp == Amp::fp16);
  CHECK(parse("train: {amp: bf16}\n").train.amp == Amp::bf16);
  CHECK(error_of("train: {amp: bfloat16}\n").find("did you mean 'bf16'?") != std::string::npos);
  CHECK(error_of("train: {amp: half}\n").find("did you mean 'fp16'?") != std::string::npos);
  for (const char* key : {"mixed_precision", "half", "autocast", "precision"}) {
    INFO(key);
    CHECK(error_of(std::string("train: {") + key + ": fp16}\n").find("did you mean 'train.amp'?") != std::string::npos);
  }
}

TEST_CASE("the loss scale belongs to fp16, is shown with it, and is refused without it") {
  const Experiment fp16 =
      parse("train: {amp: fp16, loss_scale: {initial: 1024, growth: 4, backoff: 0.25, interval: 7}}\n");
  CHECK(fp16.train.loss_scale.initial == 1024);
  CHECK(fp16.train.loss_scale.growth == 4);
  CHECK(fp16.train.loss_scale.backoff == 0.25);
  CHECK(fp16.train.loss_scale.interval == 7);
  CHECK(nlohmann::json::parse(fp16.resolved_json)["train"]["loss_scale"]["initial"] == 1024);
  CHECK_FALSE(nlohmann::json::parse(parse("").resolved_json)["train"].contains("loss_scale"));
  const std::string error = error_of("train: {amp: bf16, loss_scale: {initial: 2}}\n");
  CHECK(error.find("test.yaml:2:33: error: 'train.loss_scale.initial' does not apply to 'train.amp: bf16'") !=
        std::string::npos);
  CHECK(error.find("only with train.amp fp16; remove it, or set train.loss_scale.initial=null") != std::string::npos);
  CHECK(parse("train: {amp: bf16, loss_scale: {initial: 2}}\n", {"train.loss_scale.initial=null"}).train.amp ==
        Amp::bf16);
  CHECK(error_of("train: {amp: fp16, loss_scale: {initial: 0}}\n").find("is below 1e-04") != std::string::npos);
  CHECK(error_of("train: {amp: fp16, loss_scale: {initial: 1e300}}\n").find("exceeds 1e+30") != std::string::npos);
  CHECK(error_of("train: {amp: fp16, loss_scale: {growth: 1}}\n").find("is not above 1") != std::string::npos);
  CHECK(error_of("train: {amp: fp16, loss_scale: {backoff: 1}}\n").find("is not below 1") != std::string::npos);
  CHECK(error_of("train: {amp: fp16, loss_scale: {backoff: 0}}\n").find("is not above 0") != std::string::npos);
  CHECK(error_of("train: {amp: fp16, loss_scale: {interval: 0}}\n").find("is below 1") != std::string::npos);
}

TEST_CASE("checkpointing is a word or a map of one key, in a file and in an argument") {
  CHECK(parse("train: {checkpointing: sqrt}\n").train.checkpointing.type == Type::sqrt);
  CHECK(parse("", {"train.checkpointing=auto"}).train.checkpointing.type == Type::automatic);
  check_same(parse("train: {checkpointing: {every: 3}}\n").train.checkpointing, {Type::every, 3, {}, 0});
  check_same(parse("", {"train.checkpointing={budget: 4GiB}"}).train.checkpointing,
             {Type::budget, 0, {}, std::int64_t{4} << 30});
  check_same(parse("train:\n  checkpointing:\n    layers: [conv2d, body.*, 3]\n").train.checkpointing,
             {Type::layers, 0, {"conv2d", "body.*", "3"}, 0});
}

TEST_CASE("an argument puts another form of checkpointing in the place of what the file says") {
  for (const char* before : {"", "train: {checkpointing: off}\n", "train: {checkpointing: {every: 2}}\n",
                             "train: {checkpointing: {budget: 1GiB}}\n"}) {
    INFO(before);
    check_same(parse(before, {"train.checkpointing.every=4"}).train.checkpointing, {Type::every, 4, {}, 0});
    check_same(parse(before, {"train.checkpointing.layers=[relu]"}).train.checkpointing,
               {Type::layers, 0, {"relu"}, 0});
    check_same(parse(before, {"train.checkpointing=off"}).train.checkpointing, {});
    check_same(parse(before, {"train.checkpointing=null"}).train.checkpointing, {});
  }
  check_same(
      parse("train: {checkpointing: {layers: [a, b]}}\n", {"train.checkpointing.layers.1=c"}).train.checkpointing,
      {Type::layers, 0, {"a", "c"}, 0});
}

TEST_CASE("a file that extends another one takes the place of its checkpointing") {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/tests/config/extends/of_checkpointing.yaml";
  check_same(load_experiment(path).train.checkpointing, {Type::budget, 0, {}, std::int64_t{1} << 30});
  CHECK(load_experiment(path).train.batch_size == 48);
}

TEST_CASE("what is wrong with checkpointing is told with its place and what would be right") {
  const std::string both = error_of("train: {checkpointing: {every: 2, budget: 1GiB}}\n");
  CHECK(both.find("test.yaml:2:35: error: 'train.checkpointing' has both 'every' and 'budget'") != std::string::npos);
  CHECK(both.find("expected: one of them") != std::string::npos);
  CHECK(error_of("train: {checkpointing: {evry: 2}}\n").find("did you mean 'every'?") != std::string::npos);
  CHECK(error_of("train: {checkpointing: {memory_budget: 2}}\n").find("did you mean 'budget'?") != std::string::npos);
  CHECK(error_of("train: {checkpointing: sqr}\n").find("did you mean 'sqrt'?") != std::string::npos);
  CHECK(error_of("train: {checkpointing: on}\n").find("did you mean 'auto'?") != std::string::npos);
  CHECK(error_of("train: {checkpointing: budget}\n").find("'budget' needs a value") != std::string::npos);
  CHECK(error_of("train: {checkpointing: {}}\n").find("is empty") != std::string::npos);
  CHECK(error_of("train: {checkpointing: {every: 0}}\n").find("'train.checkpointing.every': '0' is below 1") !=
        std::string::npos);
  CHECK(error_of("train: {checkpointing: {every: }}\n").find("'train.checkpointing.every' has no value") !=
        std::string::npos);
  CHECK(error_of("train: {checkpointing: {budget: much}}\n").find("is not a size") != std::string::npos);
  CHECK(error_of("train: {checkpointing: {layers: []}}\n").find("is empty") != std::string::npos);
  CHECK(error_of("train: {checkpointing: {layers: [a b]}}\n").find("'a b' names no layer") != std::string::npos);
  CHECK(error_of("train: {checkpointing: [sqrt]}\n").find("cannot be a list") != std::string::npos);
  CHECK(error_of("train: {checkpointing: 3}\n").find("{every: integer}") != std::string::npos);
  for (const char* key : {"gradient_checkpointing", "activation_checkpointing", "recompute"}) {
    INFO(key);
    CHECK(error_of(std::string("train: {") + key + ": on}\n").find("did you mean 'train.checkpointing'?") !=
          std::string::npos);
  }
}

TEST_CASE("every form of checkpointing and offload reads back from what is shown, as YAML and as JSON") {
  for (const char* text :
       {"", "train: {checkpointing: sqrt}\n", "train: {checkpointing: auto}\n", "train: {checkpointing: {every: 5}}\n",
        "train: {checkpointing: {layers: [\"*\", \"0\", \"on\", conv2d]}}\nmemory: {offload: [\"*.relu\", \"1\"]}\n",
        "train: {checkpointing: {budget: 12345}}\nmemory: {offload: [linear]}\n"}) {
    const Experiment first = parse(text);
    for (const std::string& shown : {resolved_yaml(first), resolved_json(first), resolved_json(first, 2)}) {
      INFO(shown);
      const Experiment again = parse_experiment(shown, "again.yaml");
      check_same(again.train.checkpointing, first.train.checkpointing);
      CHECK(again.memory.offload == first.memory.offload);
      CHECK(again.resolved_json == first.resolved_json);
    }
  }
}

TEST_CASE("the settled budget of auto is not shown") {
  Experiment experiment = parse("train: {checkpointing: auto}\n");
  experiment.train.checkpointing.budget = 12345;
  CHECK(nlohmann::json::parse(resolved_json(experiment))["train"]["checkpointing"] == "auto");
}

TEST_CASE("the memory keys reach their members") {
  const MemoryConfig memory = parse(
                                  "memory: {in_place: false, recompute_cheap: off, chunked_loss: 256, update: "
                                  "in_backward, gradients: 16bit, moments: 8bit, master_weights: false, offload: "
                                  "[conv2d, \"2\"]}\ntrain: {amp: bf16}\noptimizer: adamw\n")
                                  .memory;
  CHECK_FALSE(memory.in_place);
  CHECK_FALSE(memory.recompute_cheap);
  CHECK(memory.chunked_loss == 256);
  CHECK(memory.update == UpdatePlace::in_backward);
  CHECK(memory.gradients == GradientStorage::half);
  CHECK(memory.moments == MomentStorage::eight_bit);
  CHECK_FALSE(memory.master_weights);
  CHECK(memory.offload == Patterns{"conv2d", "2"});
  CHECK(parse("memory: {chunked_loss: auto}\n").memory.chunked_loss == -1);
  CHECK(parse("memory: {chunked_loss: 0}\n").memory.chunked_loss == 0);
  CHECK(error_of("memory: {chunked_loss: -1}\n").find("is below 0") != std::string::npos);
  CHECK(error_of("memory: {moments: int8}\noptimizer: adam\n").find("did you mean '8bit'?") != std::string::npos);
  CHECK(error_of("memory: {offload: conv2d}\n").find("did you mean '[conv2d]'?") != std::string::npos);
  CHECK(error_of("memory: {offload: {a: 1}}\n").find("cannot be a map") != std::string::npos);
  CHECK(error_of("memory: {offload: [[a]]}\n").find("not a word") != std::string::npos);
}

TEST_CASE("an update in the backward pass is refused with what needs all gradients first") {
  const std::string update = "memory: {update: in_backward}\n";
  CHECK(error_of(update) == "no error");
  CHECK(error_of(update + "train: {amp: bf16}\n") == "no error");
  for (const auto& [key, remedy] :
       std::vector<std::pair<std::string, std::string>>{{"clip_norm: 1", "train.clip_norm: 0"},
                                                        {"accumulation_steps: 2", "train.accumulation_steps: 1"},
                                                        {"amp: fp16", "train.amp: bf16"}}) {
    const std::string error = error_of(update + "train: {" + key + "}\n");
    INFO(error);
    CHECK(error.find("test.yaml:2:10: error: an update in the backward pass cannot") != std::string::npos);
    CHECK(error.find("expected: " + remedy + ", or memory.update: at_end") != std::string::npos);
  }
}

TEST_CASE("storage in fewer bits is refused where there is nothing that it could store") {
  CHECK(error_of("memory: {gradients: 16bit}\n").find("train.amp: bf16 or fp16") != std::string::npos);
  CHECK(error_of("memory: {gradients: 16bit}\ntrain: {amp: fp16}\n") == "no error");
  CHECK(error_of("memory: {master_weights: false}\n").find("train.amp: bf16, or") != std::string::npos);
  CHECK(error_of("memory: {master_weights: false}\ntrain: {amp: fp16}\n").find("train.amp: bf16, or") !=
        std::string::npos);
  CHECK(error_of("memory: {master_weights: false}\ntrain: {amp: bf16}\n") == "no error");
  CHECK(error_of("memory: {moments: 8bit}\n").find("sgd has no moments") != std::string::npos);
  CHECK(error_of("memory: {moments: 8bit}\noptimizer: adam\n") == "no error");
}

TEST_CASE("the forms of checkpointing are explained, and the example loads") {
  const std::string text = explain_key("train.checkpointing");
  INFO(text);
  for (const char* form : {"sqrt", "auto", "{every: …}", "{layers: …}", "{budget: …}"}) {
    CHECK(text.find(form) != std::string::npos);
  }
  const std::size_t at = text.find("example:  ");
  REQUIRE(at != std::string::npos);
  const std::string example = text.substr(at + 10, text.find('\n', at) - at - 10);
  CHECK(parse(example + "\n").train.checkpointing.type == Type::every);
}

}  // namespace trainer
