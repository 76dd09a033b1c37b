#include "engine/config/model/model_expansion.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "engine/config/diagnostic.h"
#include "engine/config/load_experiment.h"
#include "engine/config/yaml/node_text.h"

using namespace trainer;

namespace {

/// `model.layers` as it is shown.
std::string shown_layers(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Experiment experiment = parse_experiment(text, "test.yaml", overrides);
  const std::string shown = resolved_yaml(experiment);
  CHECK(resolved_yaml(parse_experiment(shown, "shown.yaml")) == shown);
  const std::size_t begin = shown.find("  layers:\n"), end = shown.find("\n  init:");
  REQUIRE(begin != std::string::npos);
  return shown.substr(begin + 10, end - begin - 9);
}

/// The same layers written out by hand.
std::string shown_list(const std::string& list) { return shown_layers("model:\n  layers: " + list + "\n"); }

std::string error_of_model(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_experiment(text, "test.yaml", overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

const std::string text_with_blocks = R"(
model:
  blocks:
    hidden:
      parameters: {width: , bias: true, drop: 0}
      layers:
        - linear: {out: "${width}", bias: "${bias}", name: fc}
        - relu
        - dropout: {p: "${drop}", when: "${drop != 0}"}
    pair:
      parameters: {width: 8, inner: "${width / 2}"}
      layers: [hidden: {width: "${inner}"}, hidden: {width: "${width}", bias: false}]
  layers:
)";

}  // namespace

TEST_CASE("a block is written out as a sequential where it is used, with its values and its defaults") {
  CHECK(
      shown_layers(text_with_blocks + "    - flatten\n    - pair: {width: 6, name: body}\n    - linear: {out: 10}\n") ==
      shown_list("[flatten, sequential: {name: body, layers: ["
                 "sequential: {layers: [linear: {out: 3, name: fc}, relu]}, "
                 "sequential: {layers: [linear: {out: 6, name: fc, bias: false}, relu]}]}, linear: {out: 10}]"));
  CHECK(
      shown_layers(text_with_blocks + "    - hidden: {width: 3, drop: 1}\n    - hidden: {width: 4, from: 0, name: b}\n",
                   {"model.layers.0.2.dropout.p=0.5"}) ==
      shown_list("[sequential: {layers: [linear: {out: 3, name: fc}, relu, dropout: {p: 0.5}]}, "
                 "sequential: {from: '0', name: b, layers: [linear: {out: 4, name: fc}, relu]}]"));
}

TEST_CASE("repeat with as writes its copies into the list where it stands, so that positions go on") {
  CHECK(shown_layers("model:\n  layers:\n    - flatten\n"
                     "    - repeat: {times: 3, as: i, layers: [linear: {out: \"${4 + i}\", name: \"fc${i}\"}, "
                     "relu: {when: \"${i != 2}\"}]}\n    - linear: {out: 10}\n") ==
        shown_list("[flatten, linear: {out: 4, name: fc0}, relu, linear: {out: 5, name: fc1}, relu, "
                   "linear: {out: 6, name: fc2}, linear: {out: 10}]"));
  CHECK(shown_layers("model:\n  layers: [flatten, repeat: {times: 0, as: i, layers: [relu]}, linear: {out: 10}]\n") ==
        shown_list("[flatten, linear: {out: 10}]"));
}

TEST_CASE("repeat without as stays what it is") {
  CHECK(shown_layers("model:\n  blocks: {unit: {layers: [relu]}}\n"
                     "  layers: [repeat: {times: 3, layers: [unit, linear: {out: 4}]}]\n") ==
        shown_list("[repeat: {times: 3, layers: [sequential: {layers: [relu]}, linear: {out: 4}]}]"));
}

TEST_CASE("what a condition leaves out is not there, wherever it stands") {
  const std::string text =
      "model:\n  layers:\n    - conv2d: {out: 3, kernel: 1, when: \"${train.batch_size > 8}\"}\n"
      "    - residual: {layers: [relu], shortcut: [tanh: {when: false}]}\n    - gelu: {when: 0}\n"
      "    - sigmoid: {when: on}\n    - silu: {when: null}\n";
  CHECK(shown_layers(text, {"train.batch_size=9"}) ==
        shown_list("[conv2d: {out: 3, kernel: 1}, residual: {layers: [relu]}, sigmoid, silu]"));
  CHECK(shown_layers(text, {"train.batch_size=8"}) == shown_list("[residual: {layers: [relu]}, sigmoid, silu]"));
}

TEST_CASE("a truth that is a parameter decides what is there, however it is written") {
  const std::string blocks =
      "model:\n  blocks:\n    hidden:\n      parameters: {norm: , bias: \"${not norm}\"}\n"
      "      layers: [linear: {out: 3, bias: \"${bias}\"}, layernorm: {when: \"${norm}\"},"
      " relu: {when: \"${norm == true}\"}, tanh: {when: \"${norm != on}\"}]\n";
  for (const char* truth : {"true", "on", "\"${true}\"", "\"${on}\"", "\"${1 == 1}\"", "\"${train.epochs >= 1}\"",
                            "\"${memory.in_place}\""}) {
    INFO(truth);
    CHECK(shown_layers(blocks + "  layers: [hidden: {norm: " + truth + "}]\n") ==
          shown_list("[sequential: {layers: [linear: {out: 3, bias: false}, layernorm, relu]}]"));
  }
  for (const char* truth : {"false", "off", "\"${false}\"", "\"${0}\"", "\"${not memory.in_place}\""}) {
    INFO(truth);
    CHECK(shown_layers(blocks + "  layers: [hidden: {norm: " + truth + "}]\n") ==
          shown_list("[sequential: {layers: [linear: {out: 3}, tanh]}]"));
  }
  // A number that nothing computed is none.
  CHECK(error_of_model(blocks + "  layers: [hidden: {norm: true, bias: 1}]\n").find("'1' is neither true nor false") !=
        std::string::npos);
  for (const char* word : {"on", "off", "true"})
    CHECK(error_of_model("model:\n  blocks: {hidden: {parameters: {" + std::string(word) +
                         ": 1}, layers: [relu]}}\n  layers: [hidden]\n")
              .find("is no name for a parameter") != std::string::npos);
}

TEST_CASE("expressions stand wherever references do, and their truths are true and false") {
  const Experiment experiment = parse_experiment(
      "model: {layers: [flatten, linear: {out: \"${data.classes * 2}\", bias: \"${1 == 2}\"}]}\n"
      "data: {type: synthetic, shape: [4], classes: 5, samples: 10}\n"
      "train: {batch_size: 6, eval_batch_size: \"${max(train.batch_size, 3) * 4}\"}\nname: \"run-${2 * 3}-${seed}\"\n"
      "memory: {in_place: \"${train.batch_size < 3}\"}\n",
      "test.yaml");
  const auto& linear = std::get<LinearSpec>(experiment.layers[1].spec);
  CHECK(linear.out == 10);
  CHECK_FALSE(linear.bias);
  CHECK(experiment.train.eval_batch_size == 24);
  CHECK(experiment.name == "run-6-0");
  CHECK_FALSE(experiment.memory.in_place);
  CHECK(experiment.computed_from.contains("train.batch_size"));
  CHECK(parse_experiment("model: {layers: [flatten]}\nname: \"a${seed}\"\n", "test.yaml").computed_from.empty());
  CHECK(
      parse_experiment("model: {layers: [flatten]}\nname: \"a${6 / train.epochs}\"\ntrain: {epochs: 2}\n", "test.yaml")
          .computed_from.contains("train.epochs"));
}

TEST_CASE("overrides set what blocks are given, and reach into what was written out by path") {
  const std::string text = text_with_blocks + "    - flatten\n    - pair: {name: body}\n    - linear: {out: 10}\n";
  const std::string expected = shown_list(
      "[flatten, sequential: {name: body, layers: ["
      "sequential: {layers: [linear: {out: 5, name: fc}, relu]}, "
      "sequential: {layers: [linear: {out: 8, name: fc, bias: false}, relu]}]}, linear: {out: 10}]");
  for (const std::string key :
       {"model.layers.body.0.fc.out", "model.layers.1.0.0.out", "model.layers.body.0.fc.linear.out",
        "model.layers.body.sequential.layers.0.sequential.layers.fc.linear.out", "model.layers.body.layers.0.fc.out"}) {
    INFO(key);
    CHECK(shown_layers(text, {key + "=5"}) == expected);
  }
  CHECK(
      shown_layers(text, {"model.blocks.pair.parameters.width=10"}) ==
      shown_layers(text_with_blocks + "    - flatten\n    - pair: {name: body, width: 10}\n    - linear: {out: 10}\n"));
  CHECK(shown_layers(text, {"model.layers.2={hidden: {width: 3}}"}) ==
        shown_layers(text_with_blocks + "    - flatten\n    - pair: {name: body}\n    - hidden: {width: 3}\n"));
  CHECK(shown_layers("model: {layers: [flatten, relu, linear: {out: 10}]}\n", {"model.layers.1.relu.when=false"}) ==
        shown_list("[flatten, linear: {out: 10}]"));
  CHECK(shown_layers(text, {"model.layers.0=relu", "model.layers=[tanh]"}) == shown_list("[tanh]"));
  CHECK(error_of_model(text, {"model.layers.body.2.out=5"}).find("'model.layers.body' has no layer '2'") !=
        std::string::npos);
  CHECK(error_of_model(text, {"model.layers.body.0.fd.out=5"}).find("did you mean 'model.layers.body.0.fc.out'?") !=
        std::string::npos);
  CHECK(error_of_model("model: {layers: [repeat: {times: 3, layers: [linear: {out: 4}]}]}\n",
                       {"model.layers.0.2.0.out=5"})
            .find("did you mean 'model.layers.0.layers.0.out'?") != std::string::npos);
}

TEST_CASE("a parameter of one use of a block, and times of a repeat with as, are set where they are written") {
  const std::string text = text_with_blocks +
                           "    - repeat: {times: 2, as: i, layers: [relu, hidden: {width: \"${i + 2}\"}]}\n"
                           "    - hidden: {width: 3, name: one}\n    - pair\n"
                           "    - sequential: {name: body, layers: [pair: {width: 4}]}\n    - linear: {out: 10}\n";
  const auto layers_with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    REQUIRE(changed.find(from) != std::string::npos);
    return shown_layers(changed.replace(changed.find(from), from.size(), to));
  };
  for (const char* key : {"1.hidden.width", "one.hidden.width", "1.width", "one.width"})
    CHECK(shown_layers(text, {"model.layers." + std::string(key) + "=5"}) == layers_with("width: 3", "width: 5"));
  for (const char* key : {"2.pair.width", "2.width"})
    CHECK(shown_layers(text, {"model.layers." + std::string(key) + "=6"}) ==
          layers_with("- pair\n", "- pair: {width: 6}\n"));
  for (const char* key : {"body.0.width", "3.0.pair.width", "body.sequential.layers.0.pair.width", "3.layers.0.width"})
    CHECK(shown_layers(text, {"model.layers." + std::string(key) + "=6"}) == layers_with("width: 4", "width: 6"));
  for (const char* key : {"0.repeat.times", "0.times"})
    CHECK(shown_layers(text, {"model.layers." + std::string(key) + "=3"}) == layers_with("times: 2", "times: 3"));
  CHECK(shown_layers(text, {"model.layers.0.repeat.layers.1.hidden.width=7"}) ==
        layers_with("width: \"${i + 2}\"", "width: 7"));
  CHECK(shown_layers(text, {"model.layers.one.hidden={width: 9, drop: 0.5}"}) ==
        layers_with("width: 3, name: one", "width: 9, drop: 0.5"));
  // In the order of the arguments, and with what reaches into the layers that are written out.
  CHECK(shown_layers(text, {"model.layers.one.width=9", "model.layers.one.width=5"}) ==
        layers_with("width: 3", "width: 5"));
  CHECK(shown_layers(text, {"model.layers.one.fc.out=8", "model.layers.one.width=5"}) ==
        shown_layers(text, {"model.layers.one.fc.out=8"}));
  CHECK(shown_layers(text, {"model.layers.1={hidden: {width: 2}}", "model.layers.1.width=4"}) ==
        shown_layers(text, {"model.layers.1={hidden: {width: 4}}"}));

  const auto said = [&](const std::string& argument) { return error_of_model(text, {argument}); };
  const auto says = [&](const std::string& argument, const std::string& part) {
    INFO(said(argument));
    CHECK(said(argument).find(part) != std::string::npos);
  };
  says("model.layers.one.hidden.widht=5", "block 'hidden' has no parameter 'widht'");
  says("model.layers.one.hidden.widht=5", "did you mean 'width'?");
  says("model.layers.one.widht=5", "did you mean 'model.layers.one.hidden.width'?");
  // The position of what was written out is that of another layer where it is written.
  says("model.layers.4.hidden.width=5", "did you mean 'model.layers.one.hidden.width'?");
  says("model.layers.5.width=5", "did you mean 'model.layers.2.pair.width'?");
  says("model.layers.0.repeat.tims=5", "did you mean 'times'?");
  says("model.layers.2.pair.width=7", "7 / 2 leaves a remainder of 1");
}

TEST_CASE("a model's file is found beside the configuration and takes values, also from the command line") {
  namespace fs = std::filesystem;
  const std::string folder = std::string(TRAINER_SOURCE_DIR) + "/tests/config/model_files";
  const std::string text = "model: {file: chain.yaml, with: {width: 3}}\n";
  const auto layers_with = [&](const std::vector<std::string>& overrides) {
    return resolved_yaml(parse_experiment(text, folder + "/test.yaml", overrides));
  };
  CHECK(layers_with({}).find("linear: {out: 3, bias: true}") != std::string::npos);
  CHECK(layers_with({"model.with.width=4"}).find("linear: {out: 4, bias: true}") != std::string::npos);
  CHECK(layers_with({"model.layers.1.out=7"}).find("linear: {out: 7, bias: true}") != std::string::npos);
  CHECK(parse_experiment("model: {file: blocks.yaml}\n", folder + "/test.yaml", {"model.layers.0.wide.width=4"})
            .layers.size() == 2);
  CHECK(layers_with({"model.init=zeros"}).find("init: zeros") != std::string::npos);
  CHECK(layers_with({"model.file=null", "model.with=null", "model.layers=[tanh]"}).find("- tanh") != std::string::npos);
}

TEST_CASE("references name what a model's file and blocks are given, or take by themselves") {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/tests/config/model_files/test.yaml";
  const std::string text =
      "model: {file: chain.yaml, with: {width: 3}}\noutput: \"out/${model.file}/${model.with.kind}\"\n"
      "name: \"w${model.with.width}\"\ntrain: {batch_size: \"${model.with.width * 2}\"}\n";
  const auto read = [&](const std::vector<std::string>& overrides) { return parse_experiment(text, path, overrides); };
  CHECK(read({}).name == "w3");
  CHECK(read({}).output == "out/chain.yaml/plain");
  CHECK(read({}).train.batch_size == 6);
  CHECK(read({}).computed_from.contains("model.with.width"));
  CHECK(read({"model.with.width=5", "model.with.kind=deep"}).name == "w5");
  CHECK(read({"model.with.width=5", "model.with.kind=deep"}).output == "out/chain.yaml/deep");
  CHECK(read({"model.with={width: 4}"}).name == "w4");
  CHECK(read({"model.with.kind=null"}).output == "out/chain.yaml/plain");
  // What a name is made of changes nothing else.
  CHECK_FALSE(read({"train.batch_size=2"}).computed_from.contains("model.with.width"));
  CHECK(parse_experiment("model: {file: chain.yaml, with: {width: \"${model.with.kind}\", kind: deep}}\n", path,
                         {"model.with.width=\"${train.batch_size}\""})
            .layers.size() == 5);
  const auto error_of = [&](const std::string& with, const std::string& name) {
    try {
      parse_experiment("model: {file: chain.yaml, with: " + with + "}\nname: \"" + name + "\"\n", path);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(error_of("{width: 3}", "${model.with.widht}").find("did you mean 'model.with.width'?") != std::string::npos);
  CHECK(error_of("{width: \"${model.with.width}\"}", "a").find("leads back to itself") != std::string::npos);
  CHECK(error_of("{width: 3}", "${model.with}").find("'model.with' is a section") != std::string::npos);
  const Experiment blocks =
      parse_experiment(text_with_blocks + "    - pair\nname: \"p${model.blocks.pair.parameters.width}\"\n", "test.yaml",
                       {"model.blocks.pair.parameters.width=10"});
  CHECK(blocks.name == "p10");
}

TEST_CASE("an error of a block carries who used it, from the inside out") {
  try {
    parse_experiment(text_with_blocks + "    - pair: {width: 7}\n    - pair: {width: 7}\n", "test.yaml");
    FAIL("no error");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 1);
    const Diagnostic& told = error.diagnostics()[0];
    CHECK(told.message == "7 / 2 leaves a remainder of 1");
    REQUIRE(told.location.used_at != nullptr);
    CHECK(told.location.used_at->line == 14);
    CHECK(told.location.used_at->used_at == nullptr);
    CHECK(told.use_lines == std::vector<std::string>{"    - pair: {width: 7}"});
  }
}

TEST_CASE("a file that extends another takes over its values of parameters one by one, and blocks as wholes") {
  const std::string folder = std::string(TRAINER_SOURCE_DIR) + "/tests/config/model_files";
  const Experiment experiment = load_experiment(folder + "/extending.yaml");
  CHECK(std::get<LinearSpec>(experiment.layers[1].spec).out == 5);
  CHECK(experiment.layers.size() == 5);
}

TEST_CASE("A map of the model's file says how weights of others are called, where that is not written") {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/tests/config/model_files/test.yaml";
  const std::string model = "model: {file: maps.yaml}\n";
  const auto weights_of = [&](const std::string& keys) {
    return parse_experiment(model + "weights: {file: a.safetensors" + keys + "}\n", path).weights;
  };
  CHECK(weights_of("").rename.empty());
  const WeightsConfig hub = weights_of(", map: hub");
  REQUIRE(hub.rename.size() == 1);
  CHECK(hub.rename == weights_of(", rename: [['^model\\.', '']]").rename);
  CHECK(hub.transpose == std::vector<std::string>{"c_*.weight"});
  CHECK(hub.ignore == std::vector<std::string>{"*.masked_bias"});
  CHECK(weights_of(", map: hub, transpose: [x]").transpose == std::vector<std::string>{"x"});
  CHECK(weights_of(", map: hub, transpose: [x]").ignore == hub.ignore);
  CHECK(weights_of(", map: other").rename != hub.rename);
  // What the map renames and ignores may be missing in a file, and what the configuration says itself may not.
  using Optional = std::vector<WeightsNames>;
  CHECK(hub.optional == Optional{WeightsNames::rename, WeightsNames::ignore});
  CHECK(weights_of(", map: hub, ignore: [x]").optional == Optional{WeightsNames::rename});
  CHECK(weights_of(", map: hub, optional: ignore").optional == Optional{WeightsNames::ignore});
  CHECK(weights_of(", rename: [[a, b]]").optional.empty());
  const std::string shown = resolved_yaml(parse_experiment(model + "weights: {file: a, map: hub}\n", path));
  CHECK(resolved_yaml(parse_experiment(shown, "shown.yaml")) == shown);

  using Catch::Matchers::Contains;
  const auto mistake = [&](const std::string& text) {
    try {
      parse_experiment(text, path);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK_THAT(mistake(model + "weights: {file: a, map: hubb}\n"),
             Contains("the model has no map 'hubb'") && Contains("did you mean 'hub'"));
  CHECK_THAT(mistake(model + "weights: {file: a, map: [hub]}\n"), Contains("the model has no map"));
  const auto with_maps = [](const std::string& maps) {
    return "model: {layers: [flatten, linear: {out: 10}], maps: " + maps + "}\n";
  };
  CHECK_THAT(mistake(with_maps("{wrong: {renames: [[a, b]], transpose: 7}}")),
             Contains("unknown key 'renames'") && Contains("did you mean 'rename'") && Contains("names of tensors"));
  CHECK_THAT(mistake(with_maps("{list: [a]}")), Contains("'list' is no map of names"));
  CHECK_THAT(mistake(with_maps("[a]")), Contains("'model.maps' is not a map"));
  CHECK_THAT(mistake("model: {file: chain.yaml, with: {width: 3}}\nweights: {file: a, map: hub}\n"),
             Contains("'weights.map' names a map of the model, and there is none"));
  CHECK_THAT(mistake("model: {layers: [flatten, linear: {out: 10}]}\nweights: {file: a, map: hub}\n"),
             Contains("and there is none"));
}

TEST_CASE("Maps of a model stay in what is resolved, those of the configuration before those of the file") {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/tests/config/model_files/test.yaml";
  const Experiment experiment =
      parse_experiment("model: {file: maps.yaml, maps: {other: {rename: [[c, d]], save: [[e, f]]}, own: }}\n", path);
  const auto names_of = [](const std::vector<NameMap>& maps) {
    std::vector<std::string> names;
    for (const NameMap& map : maps) names.push_back(map.name);
    return names;
  };
  CHECK(names_of(experiment.maps) == std::vector<std::string>{"other", "own", "hub"});
  CHECK(experiment.maps[0].rename == std::vector<TextPair>{{"c", "d"}});
  CHECK(experiment.maps[0].save == std::vector<TextPair>{{"e", "f"}});
  CHECK_FALSE(experiment.maps[2].save.has_value());
  CHECK(experiment.maps[2].three_axes == std::vector<std::string>{"head.bias"});
  const std::string shown = resolved_yaml(experiment);
  CHECK(resolved_yaml(parse_experiment(shown, "shown.yaml")) == shown);

  const std::vector<NameMap> again = maps_of_resolved(experiment.resolved_json);
  CHECK(names_of(again) == names_of(experiment.maps));
  CHECK(again[0].save == experiment.maps[0].save);
  CHECK(again[2].transpose == experiment.maps[2].transpose);
  CHECK(again[2].location.file.empty());
  CHECK(maps_of_resolved("{}").empty());
  CHECK(maps_of_resolved("[]").empty());
  // One of the configuration's own is one that weights may be named by.
  CHECK(parse_experiment("model: {layers: [flatten, linear: {out: 2}], maps: {a: {rename: [[c, d]]}}}\n"
                         "weights: {file: x, map: a}\n",
                         path)
            .weights.rename == std::vector<TextPair>{{"c", "d"}});
}
