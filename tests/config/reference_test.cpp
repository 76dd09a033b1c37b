#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/config/config_reference.h"
#include "engine/config/diagnostic.h"
#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/layer_fields.h"
#include "engine/config/fields/stage_fields.h"
#include "engine/config/load_experiment.h"
#include "engine/config/text/absent_feature.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/yaml/templates.h"

namespace trainer {
namespace {

using Json = nlohmann::json;

const std::string layers = "model: {layers: [flatten, linear: {out: 10}]}\n";

/// A configuration of every type with all of its keys away from their defaults.
const std::vector<std::string> full_configs{
    R"(
name: "odd ${seed} \"name\" with: signs # and \\ $${x}"
seed: 9223372036854775807
device: {type: cuda:3, threads: 5}
memory: {limit: 1.5GiB, preflight: off, in_place: off, recompute_cheap: off, chunked_loss: 64, gradients: 16bit,
         offload: ["*"]}
data: {type: idx, root: "some where", train: a, validation: b, train_labels: c, validation_labels: d, shuffle: false,
       drop_last: true, normalize: {mean: 0.1, std: 0.30000000000000004}, shape: [28, 28, 1], classes: 10, samples: 5,
       validation_samples: 3}
model:
  init: xavier_normal
  layers:
    - conv2d: {out: 8, kernel: [3, 5], stride: 2, padding: [0, 1], dilation: 2, groups: 4, bias: false, init: zeros, name: a}
    - batchnorm2d: {eps: 1e-3, momentum: 0.5, affine: false}
    - gelu: {approximate: tanh}
    - relu: {name: "on"}
    - batchnorm1d: {eps: 1e-2, momentum: 0.25, affine: false}
    - groupnorm: {groups: 4, eps: 1e-4, affine: false}
    - instancenorm2d: {eps: 1e-3, affine: true}
    - maxpool2d: {kernel: 3, stride: 2, padding: 1, ceil_mode: true}
    - avgpool2d: {kernel: 3, count_include_pad: false}
    - residual: {layers: [silu, tanh], shortcut: [sigmoid], name: b}
    - repeat: {times: 3, layers: [sequential: {layers: [layernorm: {eps: 0.1}, rmsnorm: {eps: 0.1}, dropout: {p: 0.1}]}]}
    - conv_transpose2d: {out: 8, kernel: [2, 3], stride: 2, padding: [0, 1], output_padding: [1, 0], dilation: 2, groups: 2, bias: false, init: zeros}
    - adaptive_avgpool2d: {size: [3, 2]}
    - upsample: {scale: [2, 3]}
    - upsample: {size: 9, mode: bilinear, align_corners: true}
    - pad: {size: 1}
    - pad: {size: [2, 3], mode: reflect}
    - pad: {size: [1, 2, 3, 4], value: -0.5}
    - leaky_relu: {slope: 0.30000000000000004, name: leaky}
    - prelu: {init: -0.1, num: 8}
    - multiply: {from: [leaky, "on"]}
    - swiglu
    - geglu: {approximate: tanh, from: [leaky, "on"], name: gated}
    - geglu: {from: gated}
    - concat: {from: [leaky, a], name: joined}
    - patch_embedding: {size: [2, 3], dim: 12, bias: false, init: zeros}
    - class_token
    - slice: {first: 2, size: 5}
    - select_token: {index: -1}
    - global_avgpool
    - attention: {heads: 6, kv_heads: 2, causal: true, window: 128, dropout: 0.1, rotary_base: 1e4}
    - attention: {heads: 1, from: [leaky, a, joined]}
    - attention: {heads: 2, rotary_base: 5e5, rotary_factor: 8, rotary_low_freq_factor: 2, rotary_high_freq_factor: 3.5,
                  rotary_original_length: 100}
    - rmsnorm: {heads: 6}
    - layernorm: {heads: 2, affine: false}
    - token_type_embedding: {num: 3, init: zeros}
    - flatten
    - linear: {out: 10, init: normal, residual_layers: 24}
    - embedding: {num: 11, dim: 8, init: normal}
    - position_embedding: {length: 5, init: zeros}
weights: {file: "a b.safetensors", rename: [['^module\.', ''], ["(\\d+) ", "\\1: # $${x}"]], transpose: ["*.c_attn"],
          ignore: [a, "1"], new: [fc.*], optional: [rename, ignore], strict: false}
loss: {cross_entropy: {label_smoothing: 0.1, class_weights: [1, 2.5, 0, 1, 1, 1, 1, 1, 1, 1]}}
optimizer: {type: sgd, lr: 1e-7, momentum: 0.9, nesterov: true, weight_decay: 5e-4, decay_norms_and_biases: true}
schedule: {type: one_cycle, warmup_fraction: 0.3, start_divisor: 10, final_divisor: 1e4}
train: {batch_size: all, epochs: 3, steps: 0, clip_norm: 1.5, eval_batch_size: 7, eval_every: 9,
        early_stopping: {patience: 3, min_delta: 0.01}, log_every: 4, amp: fp16, checkpointing: {layers: [a, "0"]},
        loss_scale: {initial: 3.5, growth: 3, backoff: 0.25, interval: 9}}
checkpoint: {every: 2ep, keep: 5, best: accuracy}
output: "runs/no"
)",
    layers +
        "data: {type: csv, train: a.csv, split: 0.25, target: \"3\", target_type: numeric, header: false, delimiter: "
        "\"\\t\"}\nloss: mse\noptimizer: {type: adamw, betas: [0.8, 0.95], eps: 1e-6}\nschedule: {type: step, "
        "every: 3ep, gamma: 0.5, warmup_steps: 3}\ntrain: {amp: bf16, checkpointing: {budget: 1GiB}}\n"
        "memory: {update: in_backward, moments: 8bit, master_weights: false}\n",
    layers +
        "data: {type: csv, train: a.csv, target: [b, \"c d\"], include: [\"a*\", \"3\"], exclude: [\"a: b\"], "
        "columns: {Pclass: category, \"odd: ${name} \\\"key\\\"\": {type: number, missing: median}, \"4\": {missing: "
        "drop}}, "
        "missing: [median, category], missing_values: [\"?\", \"-999\"], max_categories: 7, standardize: false, "
        "standardize_target: true, target_type: numeric}\nloss: mse\n",
    layers + "data: {type: csv, train: a.csv, missing: drop, missing_values: \"?\"}\n",
    layers +
        "data: {type: synthetic, shape: [4], target_type: numeric, samples: 10}\nloss: {type: smooth_l1, beta: 0.25}\n",
    layers +
        "data: {type: synthetic, shape: [4, 4, 1], target_shape: [4, 4], classes: 3, samples: 10}\nloss: [{type: "
        "cross_entropy, weight: 0.5, ignore_index: 255, class_weights: [1, 2.5, 0]}, {dice: {smooth: 0.1, "
        "ignore_index: 255}}]\ntrain: {confusion_matrix: on}\ncheckpoint: {best: mean_iou}\n",
    layers +
        "data: {type: arrays, root: a, train: b.npz, fields: {input: c, target: d, validation_input: e, "
        "validation_target: f}, layout: channels_first, target_type: numeric, target_shape: [2, 3, 1]}\nloss: mse\n",
    layers + "data: {type: tokens, root: a, train: b.bin, split: 0.5, classes: 50257, sequence_length: 1024}\n",
    layers + "data: {type: tokens, train: b.bin, classes: 9, mask_token: 8, mask_share: 0.25}\n",
    layers + "data: {type: text, train: a.txt, validation: b.txt, tokenizer: t.json, cache_folder: c}\n",
    layers + "data: digits\nloss: {dice: {smooth: 2, ignore_index: 3}}\ncheckpoint: {best: dice}\n",
    layers +
        "data: {type: synthetic, shape: [4], classes: 2, samples: 10}\nloss: bce_with_logits\nschedule: {type: "
        "cosine, final_factor: 0.1}\noptimizer: adam\n",
    "model: {layers: [flatten, linear: {out: 10}], maps: {a: {rename: [['^b\\.', c]], save: [[g, h]], transpose: "
    "[d.*], "
    "ignore: [e], three_axes: [f]}, b: {save: [[\"x\", \"\\\\0\"]]}}}\n",
    layers,
};

/// Checks a value against the parts of JSON Schema that ours is made of.
bool holds(const Json& schema, const Json& value, const Json& root) {
  if (schema.contains("$ref")) {
    const auto& name = schema["$ref"].get_ref<const std::string&>();
    REQUIRE(name.substr(0, 8) == "#/$defs/");
    REQUIRE(root["$defs"].contains(name.substr(8)));
    return holds(root["$defs"][name.substr(8)], value, root);
  }
  if (schema.contains("anyOf")) {
    const auto& forms = schema["anyOf"];
    return std::any_of(forms.begin(), forms.end(), [&](const Json& form) { return holds(form, value, root); });
  }
  if (schema.contains("not") && holds(schema["not"], value, root)) return false;
  if (schema.contains("const")) return schema["const"] == value;
  if (schema.contains("enum")) {
    return std::find(schema["enum"].begin(), schema["enum"].end(), value) != schema["enum"].end();
  }
  REQUIRE(schema.contains("type"));
  const auto is_type = [&](const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "boolean") return value.is_boolean();
    REQUIRE(type == "null");
    return value.is_null();
  };
  const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
  if (std::none_of(types.begin(), types.end(), [&](const Json& type) { return is_type(type); })) return false;
  if (value.is_string() && schema.contains("pattern")) {
    return std::regex_search(value.get<std::string>(), std::regex(schema["pattern"].get<std::string>()));
  }
  if (value.is_number() && schema.contains("minimum") && value < schema["minimum"]) return false;
  if (value.is_array()) {
    if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
    return std::all_of(value.begin(), value.end(),
                       [&](const Json& item) { return holds(schema["items"], item, root); });
  }
  if (!value.is_object()) return true;
  if (schema.contains("required")) {
    for (const Json& key : schema["required"]) {
      if (!value.contains(key.get<std::string>())) return false;
    }
  }
  if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) return false;
  if (schema.contains("minProperties") && value.size() < schema["minProperties"]) return false;
  REQUIRE(schema.contains("additionalProperties"));
  const Json& others = schema["additionalProperties"];
  for (const auto& [key, item] : value.items()) {
    if (schema.contains("propertyNames") && !holds(schema["propertyNames"], key, root)) return false;
    const bool is_known = schema.contains("properties") && schema["properties"].contains(key);
    if (is_known ? !holds(schema["properties"][key], item, root) : others == false || !holds(others, item, root))
      return false;
  }
  return true;
}

std::string read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("The reference names a schedule's keys for just the types that take them") {
  const std::map<std::string, std::string> values = {
      {"schedule.warmup_steps", "5"},      {"schedule.every", "3"},
      {"schedule.gamma", "0.5"},           {"schedule.final_factor", "0.1"},
      {"schedule.warmup_fraction", "0.5"}, {"schedule.start_divisor", "5"},
      {"schedule.final_divisor", "50"}};
  const std::vector<Choice>& types = find_field("schedule.type")->rule.choices;
  REQUIRE(types.size() == 5);
  for (const auto& [key, value] : values) {
    for (const Choice& type : types) {
      INFO(key << " with type " << type.name);
      std::string text = layers + "schedule: {type: " + type.name;
      if (type.name == "step" && key != "schedule.every") text += ", every: 3";
      if (type.name == "warmup" && key != "schedule.warmup_steps") text += ", warmup_steps: 5";
      text += ", " + key.substr(key.find('.') + 1) + ": " + value + "}\n";
      bool is_taken = true;
      try {
        parse_experiment(text, "schedule.yaml");
      } catch (const ConfigError&) {
        is_taken = false;
      }
      CHECK(find_field(key)->applies_to(type.name) == is_taken);
    }
  }
}

TEST_CASE("what is shown reads back to the same experiment") {
  for (const std::string& text : full_configs) {
    const Experiment experiment = parse_experiment(text, "x.yaml");
    const std::string shown = resolved_yaml(experiment);
    INFO(shown);
    const Experiment again = parse_experiment(shown, "y.yaml");
    CHECK(resolved_yaml(again) == shown);
    CHECK(again.resolved_json == experiment.resolved_json);
    CHECK(again.name == experiment.name);
    // JSON is YAML, so this is a second way back, but for text that looks like a reference.
    if (shown.find("$${") == std::string::npos)
      CHECK(parse_experiment(resolved_json(experiment, 2), "z.json").resolved_json == experiment.resolved_json);
  }
}

TEST_CASE("strings, large integers and small numbers survive being shown") {
  const Experiment first = parse_experiment(resolved_yaml(parse_experiment(full_configs[0], "x.yaml")), "y.yaml");
  CHECK(first.name == "odd 9223372036854775807 \"name\" with: signs # and \\ ${x}");
  CHECK(first.seed == 9223372036854775807U);
  CHECK(first.data.std == std::vector<double>{0.30000000000000004});
  CHECK(first.optimizer.lr.number == 1e-7);
  CHECK(first.layers.at(3).name == "on");
  CHECK(first.train.steps == 0);
  CHECK(parse_experiment(resolved_yaml(parse_experiment(full_configs[1], "x.yaml")), "y.yaml").data.delimiter == "\t");
}

TEST_CASE("the resolved JSON holds every key that applies, nested") {
  const Json json = Json::parse(parse_experiment(layers, "x.yaml").resolved_json);
  CHECK(json["train"]["batch_size"] == 32);
  CHECK(json["train"]["early_stopping"]["patience"] == 0);
  CHECK(json["train"]["amp"] == "off");
  CHECK(json["memory"]["preflight"] == true);
  CHECK(json["optimizer"]["momentum"] == 0);
  CHECK_FALSE(json["optimizer"].contains("betas"));
  CHECK(json["model"]["layers"] == Json::parse(R"(["flatten", {"linear": {"out": 10, "bias": true}}])"));
}

TEST_CASE("an experiment that was changed after loading shows the change") {
  Experiment experiment = parse_experiment(layers, "x.yaml");
  experiment.train.batch_size = 48;
  experiment.optimizer.type = OptimizerType::adam;
  CHECK(resolved_yaml(experiment).find("batch_size: 48") != std::string::npos);
  CHECK(Json::parse(resolved_json(experiment))["optimizer"]["betas"] == Json::parse("[0.9, 0.999]"));
}

TEST_CASE("a file that says nothing gives the struct's own defaults") {
  const Experiment parsed = parse_experiment(layers, "x.yaml");
  const Experiment initial;
  for (const ExperimentField& field : experiment_fields()) {
    if (!field.get || field.key == "name" || field.key == "output") continue;
    INFO(field.key);
    CHECK(node_of(field.get(parsed)).text == node_of(field.get(initial)).text);
  }
}

TEST_CASE("every field reads its own default back, and no key is there twice") {
  std::set<std::string> keys;
  for (const ExperimentField& field : experiment_fields()) {
    INFO(field.key);
    CHECK(keys.insert(field.key).second);
    CHECK(find_section(section_of(field.key)) != nullptr);
    CHECK(field.help.back() != '.');
    if (!field.get) continue;
    const Node node = node_of(field.get(Experiment{}));
    if (node.kind == NodeKind::null) continue;
    SourceSet sources;
    sources.add_file("default", "");
    CHECK(read_value(node, field.rule, field.key, sources).has_value());
  }
}

TEST_CASE("the schema is of draft 2020-12, refers only to what it defines, and knows every key and layer") {
  const Json schema = Json::parse(config_json_schema());
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["additionalProperties"] == false);
  for (const ExperimentField& field : experiment_fields()) {
    const Json* node = &schema;
    std::istringstream parts(field.key);
    for (std::string part; std::getline(parts, part, '.');) {
      if (node->contains("anyOf")) node = &(*node)["anyOf"][0];
      INFO(field.key);
      REQUIRE((*node)["properties"].contains(part));
      node = &(*node)["properties"][part];
    }
    CHECK((*node)["description"] == field.help);
  }
  for (const LayerKind& kind : layer_kinds()) CHECK(schema["$defs"].contains(kind.name));
}

TEST_CASE("the schema accepts what the reader accepts and refuses what it refuses") {
  const Json schema = Json::parse(config_json_schema());
  for (const std::string& text : full_configs) {
    const Experiment experiment = parse_experiment(text, "x.yaml");
    INFO(experiment.resolved_json);
    CHECK(holds(schema, Json::parse(experiment.resolved_json), schema));
  }
  for (
      const char* good :
      {R"({"extends": "a.yaml", "device": "cpu", "loss": {"mse": null}, "schedule": "cosine"})",
       R"({"memory": {"limit": "2GiB"}, "train": {"batch_size": "${seed}", "amp": "off"}, "checkpoint": {"every": "1ep"}})",
       R"({"train": {"checkpointing": {"every": 2}}, "memory": {"offload": ["conv2d", 3], "chunked_loss": "auto"}})",
       R"({"train": {"checkpointing": false, "amp": false}, "memory": {"offload": false}})",
       R"({"model": {"layers": ["relu", {"repeat": {"times": 2, "layers": ["flatten"]}}]}})",
       R"({"model": {"file": "models/resnet.yaml", "with": {"depth": 50, "stem": "cifar"}}})",
       R"({"model": {"blocks": {"hidden": {"parameters": {"width": null, "depth": {"default": 1, "one_of": [1, 2]}},
           "layers": [{"linear": {"out": "${width}", "when": "${width > 1}"}}]}},
           "layers": ["hidden", {"hidden": {"width": 3, "name": "a"}}]}})"}) {
    INFO(good);
    CHECK(holds(schema, Json::parse(good), schema));
  }
  for (const char* bad :
       {R"({"colour": 1})", R"({"train": {"batch_size": 0}})", R"({"loss": {"mse": {"label_smoothing": 0}}})",
        R"({"train": {"checkpointing": {"every": 2, "budget": 3}}})", R"({"train": {"checkpointing": {}}})",
        R"({"train": {"checkpointing": {"every": 0}}})", R"({"memory": {"offload": "conv2d"}})",
        R"({"model": {"with": 3}})", R"({"model": {"blocks": {"a": {"layer": []}}}})",
        R"({"model": {"layers": [{"hidden": {}, "relu": {}}]}})", R"({"model": {"layers": ["linear"]}})",
        R"({"model": {"layers": [{"conv2d": {"out": 3}}]}})",
        R"({"model": {"layers": [{"relu": {}, "linear": {"out": 3}}]}})", R"({"seed": "one"})"}) {
    INFO(bad);
    CHECK_FALSE(holds(schema, Json::parse(bad), schema));
  }
}

TEST_CASE("every key, section and layer is explained, with an example that loads") {
  for (const ExperimentField& field : experiment_fields()) {
    const std::string text = explain_key(field.key);
    INFO(text);
    CHECK(text.find(field.help) != std::string::npos);
    CHECK(text.find("default:") != std::string::npos);
    CHECK(text.find("example:") != std::string::npos);
  }
  for (const Section& section : sections()) CHECK_FALSE(explain_key(section.key).empty());
  for (const LayerKind& kind : layer_kinds()) {
    CHECK(explain_key(kind.name).find(kind.help) != std::string::npos);
    CHECK_NOTHROW(parse_experiment("model:\n  layers:\n    - " + kind.example + "\n", "x.yaml"));
    for (const auto& field : kind.fields) {
      CHECK(explain_key(kind.name + "." + field.key).find(field.help) != std::string::npos);
      CHECK(explain_key("model.layers." + kind.name + "." + field.key) == explain_key(kind.name + "." + field.key));
    }
  }
  CHECK(explain_key("optimizer.lr").find("default:  0.01; 0.001 for adam; 0.001 for adamw") != std::string::npos);
}

TEST_CASE("the example of a key that is of some types alone has one of them beside it") {
  int num_tried = 0;
  for (const ExperimentField& field : experiment_fields()) {
    if (field.only_for.empty() || !field.decided_by.empty()) continue;
    const std::string text = explain_key(field.key);
    const std::size_t begin = text.find("  example:  ") + std::string_view("  example:  ").size();
    std::string example = text.substr(begin, text.find('\n', begin) - begin);
    INFO(example);
    REQUIRE(example.find(": ") != std::string::npos);
    example.replace(example.find(": "), 2, "=");
    try {
      parse_experiment("data: digits\nmodel: {layers: [flatten, {linear: {out: 10}}]}\n", "test.yaml", {example});
    } catch (const ConfigError& error) {  // other keys may be missing
      CHECK_THAT(error.what(), !Catch::Contains("does not apply") && !Catch::Contains("is not known"));
    }
    ++num_tried;
  }
  CHECK(num_tried > 20);
}

TEST_CASE("every key of a stage is explained, with an example that loads") {
  const std::string whole =
      "data: {type: synthetic, shape: [4], classes: 3, samples: 12}\n"
      "model: {groups: {body: rest, head: [head]}, layers: [linear: {out: 8}, linear: {out: 3, name: head}]}\n";
  for (const StageField& field : stage_fields()) {
    const std::string text = explain_key("stages." + field.key);
    INFO(text);
    CHECK(text.find(field.help) != std::string::npos);
    CHECK(explain_key("stages.1." + field.key) == text);
    const std::string begin = "example:  ";
    const std::size_t from = text.find(begin) + begin.size();
    const std::string example = text.substr(from, text.find('\n', from) - from);
    CHECK(example.find(last_of(field.key)) != std::string::npos);
    CHECK_NOTHROW(parse_experiment(whole + example + "\n", "x.yaml"));
  }
  for (const Section& section : stage_sections()) {
    CHECK(explain_key(section.key).find(section.help) != std::string::npos);
    CHECK(explain_key(section.key).find("  " + section.key + ".") != std::string::npos);
  }
  for (const char* word : {"unfreeze", "freeze_epochs", "inputs", "masks", "top"})
    CHECK(explain_key(word).find("(of an entry of stages)") != std::string::npos);
  CHECK(explain_key("keep").find("a value of stages.optimizer: the optimizer's state goes on") != std::string::npos);
  const std::string clear = explain_key("clear");
  CHECK(clear.find("a value of stages.optimizer: ") != std::string::npos);
  CHECK(clear.find("optimizer.clear (of an entry of stages)") != std::string::npos);
  CHECK(explain_key("stages.2.train.epochs") == explain_key("train.epochs"));
  CHECK(explain_key("stages.train") == explain_key("train"));
  CHECK(explain_key("stages.1") == explain_key("stages"));
  CHECK(explain_key("stages").find("optimizer.clear          What of") != std::string::npos);
  // What the file has, too, is that of the file.
  CHECK(explain_key("output").find("The folder that a run writes") != std::string::npos);
}

TEST_CASE("the schema knows every key of a stage") {
  const Json stages = Json::parse(config_json_schema())["$defs"]["stages"];
  const auto described = [](const Json& map, std::string_view path) {
    const Json* node = &map;
    std::istringstream parts{std::string(path)};
    for (std::string part; std::getline(parts, part, '.');) {
      if (node->contains("anyOf")) node = &(*node)["anyOf"][0];
      INFO(path);
      REQUIRE((*node)["properties"].contains(part));
      node = &(*node)["properties"][part];
    }
    return (*node)["description"];
  };
  const Json& entry = stages["anyOf"][0]["items"]["anyOf"][0];
  for (const StageField& field : stage_fields()) {
    if (field.key == "optimizer") continue;  // a section, too
    const bool is_recipe = field.key.starts_with("fine_tune.");
    CHECK(described(is_recipe ? stages["anyOf"][1] : entry, field.key) == field.help);
  }
  const Json schema = Json::parse(config_json_schema());
  for (const char* good :
       {R"({"stages": [{"optimizer": "keep"}, {"optimizer": {"clear": ["head"]}, "unfreeze": "all"}]})",
        R"({"stages": [{"fine_tune": {"epochs": 3}}, {"predict": {"inputs": "x", "output": "y"}}]})",
        R"({"stages": {"fine_tune": {"epochs": "${seed}", "lr": 0.01, "freeze_epochs": 2}}})"}) {
    INFO(good);
    CHECK(holds(schema, Json::parse(good), schema));
  }
  for (const char* bad : {R"({"stages": [{"optimizer": "kep"}]})", R"({"stages": [{"output": "runs/x"}]})",
                          R"({"stages": [{"predict": {"inputs": "x"}}]})", R"({"stages": {"fine_tune": {"lr": 1}}})"}) {
    INFO(bad);
    CHECK_FALSE(holds(schema, Json::parse(bad), schema));
  }
}

TEST_CASE("no key that there is is told to be absent") {
  for (const ExperimentField& field : experiment_fields()) {
    INFO(field.key);
    CHECK(absent_feature(last_of(field.key)).empty());
    for (const std::string& synonym : field.synonyms) CHECK(absent_feature(synonym).empty());
  }
}

TEST_CASE("every word that is a value is explained by the keys that take it") {
  for (const ExperimentField& field : experiment_fields()) {
    for (const Choice& choice : field.rule.choices) {
      INFO(field.key << ": " << choice.name);
      const std::string text = explain_key(choice.name);
      const bool is_also_more = find_field(choice.name) || find_section(choice.name) || find_layer_kind(choice.name);
      CHECK((is_also_more || text.find("a value of " + field.key) != std::string::npos));
      CHECK((is_also_more || text.find(choice.help) != std::string::npos));
    }
  }
  CHECK(explain_key("one_cycle").find("a value of schedule.type: up from") != std::string::npos);
  CHECK(explain_key("budget").find("a value of train.checkpointing: {budget: …}, ") != std::string::npos);
}

TEST_CASE("an unknown key to explain gets the nearest one") {
  const auto error = [](std::string_view key) -> std::string {
    try {
      explain_key(key);
    } catch (const ConfigError& wrong) {
      return wrong.what();
    }
    return "no error";
  };
  CHECK(error("train.batchsize").find("did you mean 'train.batch_size'?") != std::string::npos);
  CHECK(error("learning_rate").find("did you mean 'optimizer.lr'?") != std::string::npos);
  CHECK(error("conv2d.kernle").find("did you mean 'conv2d.kernel'?") != std::string::npos);
  CHECK(error("onecycle").find("did you mean 'one_cycle'?") != std::string::npos);
  CHECK(error("CosineAnnealingLR").find("did you mean 'cosine'?") != std::string::npos);
  CHECK(error("unfreze").find("did you mean 'unfreeze'?") != std::string::npos);
  CHECK(error("predct").find("did you mean 'predict'?") != std::string::npos);
  CHECK(error("freeze_epoch").find("did you mean 'freeze_epochs'?") != std::string::npos);
  CHECK(error("xyzzy").find("did you mean") == std::string::npos);
}

TEST_CASE("configs/README.md carries the reference of the program as it is") {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/configs/README.md";
  const std::string begin = "<!-- reference: begin -->\n";
  const std::string end = "<!-- reference: end -->";
  std::string page = read(path);
  const std::size_t from = page.find(begin);
  const std::size_t to = page.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  // TRAINER_UPDATE_GOLDENS=1 writes it anew.
  if (std::getenv("TRAINER_UPDATE_GOLDENS") != nullptr) {
    page = page.substr(0, from + begin.size()) + config_reference_markdown() + page.substr(to);
    std::ofstream(path, std::ios::binary) << page;
  }
  const std::string now = read(path);
  const std::size_t start = now.find(begin) + begin.size();
  CHECK(now.substr(start, now.find(end) - start) == config_reference_markdown());
}

TEST_CASE("every template loads and is found by its name") {
  CHECK(config_templates().size() == 5);
  for (const ConfigTemplate& each : config_templates()) {
    INFO(each.name);
    CHECK_NOTHROW(parse_experiment(each.text, std::string(each.name) + ".yaml"));
    CHECK(config_template(each.name).text == each.text);
    CHECK(each.text.find("# ") == 0);
  }
  CHECK_THROWS_WITH(config_template("resnt"), Catch::Contains("did you mean 'resnet'?"));
}

TEST_CASE("the nearest word is found across swaps, omissions and case, and not beyond a third of the word") {
  const std::vector<std::string> words{"batch_size", "epochs", "steps", "run", "plan"};
  CHECK(nearest("batch_sise", words) == "batch_size");
  CHECK(nearest("bacth_size", words) == "batch_size");
  CHECK(nearest("Epoch", words) == "epochs");
  CHECK(nearest("rnu", words) == "run");
  CHECK(nearest("paln", words) == "plan");
  CHECK(nearest("colour", words).empty());
  CHECK(nearest("x", words).empty());
  CHECK(nearest("", words).empty());
  CHECK(nearest(std::string(100'000, 'a'), words).empty());
}

TEST_CASE("numbers are decimal and finite, and their text reads back exactly") {
  CHECK(std::get<std::int64_t>(read_integer("-12")) == -12);
  CHECK(std::get<std::int64_t>(read_integer("+0")) == 0);
  CHECK(std::get<NumberMistake>(read_integer("007")).expectation == "7");
  CHECK(std::get<NumberMistake>(read_integer("-00")).expectation == "-0");
  CHECK(std::get<NumberMistake>(read_integer("1_000")).expectation == "1000");
  CHECK(std::get<NumberMistake>(read_integer("1e3")).expectation == "1000");
  CHECK(std::holds_alternative<NumberMistake>(read_integer("9223372036854775808")));
  CHECK(std::holds_alternative<NumberMistake>(read_integer("")));
  CHECK(std::get<double>(read_number(".5")) == 0.5);
  CHECK(std::get<double>(read_number("1.")) == 1.0);
  CHECK(std::get<double>(read_number("-2E-3")) == -0.002);
  CHECK(std::get<double>(read_number("1e-400")) == 0.0);
  for (const char* wrong : {"", ".", "e5", "1e", "1e+", "1.2.3", "1 2", "0x1p3", "nan", "-inf", "1e999", "١"}) {
    INFO(wrong);
    CHECK(std::holds_alternative<NumberMistake>(read_number(wrong)));
  }
  for (const double number : {0.1, 1e-7, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, 100000.0, -0.0}) {
    CHECK(std::get<double>(read_number(number_text(number))) == number);
  }
}

}  // namespace trainer
