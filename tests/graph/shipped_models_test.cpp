#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/graph/file_order.h"
#include "engine/graph/graph.h"

using namespace trainer;

namespace {

/// The model of a file of configs/models/, with the parameters in `with`, on images of `size`×`size`; a class for each
/// image or each pixel.
Graph graph_of_model(const std::string& model, const std::string& with, std::int64_t size, bool of_pixels = false) {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/configs/models/" + model + ".yaml";
  const Experiment experiment =
      parse_experiment(fmt::format("model: {{file: {}, with: {{{}}}}}\n"
                                   "data: {{type: synthetic, shape: [{}, {}, 3], classes: 1000, samples: 4}}\n",
                                   path, with, size, size),
                       "model.yaml");
  DataDescription data;
  data.inputs = {{.name = "input", .type = {DType::f32, {size, size, 3}}, .mean = {}, .std = {}}};
  if (of_pixels) data.target = {DType::i32, {size, size}};
  data.num_outputs = 1000;
  data.num_train = data.num_held = 4;
  return build_graph(experiment, data, 2, GraphMode::training);
}

/// The same of a model that takes sequences of 8 tokens of a vocabulary; a token for each of them.
Graph graph_of_language_model(const std::string& model, const std::string& with, std::int64_t vocabulary) {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/configs/models/" + model + ".yaml";
  const Experiment experiment = parse_experiment(
      fmt::format("model: {{file: {}, with: {{{}}}}}\n"
                  "data: {{type: tokens, train: none.bin, classes: {}, sequence_length: 8, samples: 4}}\n",
                  path, with, vocabulary),
      "model.yaml");
  DataDescription data;
  data.inputs = {{.name = "input", .type = {DType::i32, {8}}, .mean = {}, .std = {}}};
  data.target = {DType::i32, {8}};
  data.num_outputs = vocabulary;
  data.num_train = data.num_held = 4;
  return build_graph(experiment, data, 2, GraphMode::training);
}

std::int64_t num_trained(const Graph& graph) {
  std::int64_t total = 0;
  for (const Parameter& parameter : graph.parameters)
    if (parameter.trainable) total += parameter.type.num_elements();
  return total;
}

/// "conv1.weight 64x3x7x7", as files have them, sorted.
std::vector<std::string> tensors_of(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Parameter& parameter : graph.parameters) {
    std::string line = parameter.name + " ";
    const Shape shape = file_shape(parameter.file_order, parameter.type.shape);
    for (int i = 0; i < shape.rank(); ++i) line += fmt::format("{}{}", i == 0 ? "" : "x", shape[i]);
    lines.push_back(std::move(line));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// The same of the state_dict of torchvision's model (without num_batches_tracked), which was printed into a file.
std::vector<std::string> torchvision_tensors(const std::string& model) {
  std::ifstream stream(std::string(TRAINER_SOURCE_DIR) + "/tests/graph/torchvision/" + model + ".txt");
  REQUIRE(stream);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST_CASE("the tensors of shipped models have the names and shapes of torchvision's") {
  CHECK(tensors_of(graph_of_model("resnet", "depth: 18", 64)) == torchvision_tensors("resnet18"));
  CHECK(tensors_of(graph_of_model("resnet", "depth: 50", 64)) == torchvision_tensors("resnet50"));
  CHECK(tensors_of(graph_of_model("vgg16", "", 224)) == torchvision_tensors("vgg16"));
  CHECK(tensors_of(graph_of_model("mobilenetv2", "", 64)) == torchvision_tensors("mobilenetv2"));
}

TEST_CASE("the encoder of the U-Net with a ResNet has the tensors of torchvision's ResNet but its head") {
  for (const char* depth : {"18", "50"}) {
    INFO(depth);
    std::vector<std::string> encoder = torchvision_tensors(std::string("resnet") + depth);
    std::erase_if(encoder, [](const std::string& tensor) { return tensor.starts_with("fc."); });
    std::vector<std::string> tensors =
        tensors_of(graph_of_model("unet_resnet", fmt::format("depth: {}, classes: 1000", depth), 32, true));
    std::erase_if(tensors,
                  [](const std::string& tensor) { return tensor.starts_with("up") || tensor.starts_with("head."); });
    CHECK(tensors == encoder);
  }
}

TEST_CASE("shipped models have as many parameters as their papers' networks") {
  const std::pair<const char*, std::int64_t> resnets[] = {
      {"depth: 18", 11'689'512}, {"depth: 34", 21'797'672}, {"depth: 50", 25'557'032}, {"depth: 101", 44'549'160}};
  for (const auto& [with, expected] : resnets) {
    INFO(with);
    CHECK(num_trained(graph_of_model("resnet", with, 64)) == expected);
  }
  CHECK(num_trained(graph_of_model("resnet", "depth: 18, classes: 1000, stem: cifar", 32)) == 11'689'512 - 64 * 3 * 40);
  CHECK(num_trained(graph_of_model("vgg16", "", 224)) == 138'357'544);
  CHECK(num_trained(graph_of_model("mobilenetv2", "", 64)) == 3'504'872);
  // Without the head, whose classes differ, as many as the network of the paper has with batch norms: 31,037,698 with
  // two classes.
  CHECK(num_trained(graph_of_model("unet", "classes: 1000", 16, true)) == 31'037'698 - 2 * 65 + 1000 * 65);
}

TEST_CASE("shipped transformers have as many parameters as those of the hub and of torchvision") {
  const std::pair<const char*, std::int64_t> gpt2s[] = {
      {"", 124'439'808}, {"size: 355M", 354'823'168}, {"size: 774M", 774'030'080}, {"size: 1558M", 1'557'611'200}};
  for (const auto& [with, expected] : gpt2s) {
    INFO("GPT-2 " << with);
    CHECK(num_trained(graph_of_language_model("gpt2", with, 50'257)) == expected);
  }
  const std::pair<const char*, std::int64_t> llamas[] = {
      {"", 1'235'814'400},           {"size: 3.2-3B", 3'212'749'824},   {"size: 3.1-8B", 8'030'261'248},
      {"size: 3-8B", 8'030'261'248}, {"size: 3.1-70B", 70'553'706'496}, {"size: 3-70B", 70'553'706'496}};
  for (const auto& [with, expected] : llamas) {
    INFO("Llama " << with);
    CHECK(num_trained(graph_of_language_model("llama", with, 128'256)) == expected);
  }
  // BertForMaskedLM's, which has no pooler.
  CHECK(num_trained(graph_of_language_model("bert", "", 30'522)) == 109'514'298);
  CHECK(num_trained(graph_of_language_model("bert", "size: large", 30'522)) == 335'174'458);
  CHECK(num_trained(graph_of_language_model("qwen3", "", 151'936)) == 596'049'920);
  CHECK(num_trained(graph_of_language_model("qwen3", "size: 8B", 151'936)) == 8'190'735'360);
  CHECK(num_trained(graph_of_model("vit", "", 224)) == 86'567'656);
  CHECK(num_trained(graph_of_model("vit", "size: large", 224)) == 304'326'632);
}

TEST_CASE("the tensors of shipped language models have the hub's names, matrices as linear layers have them") {
  using Tensors = std::vector<std::string>;
  CHECK(tensors_of(graph_of_language_model("gpt2", "depth: 1, width: 4, heads: 2, vocabulary: 11, length: 9", 11)) ==
        Tensors{"h.0.attn.c_attn.bias 12", "h.0.attn.c_attn.weight 12x4", "h.0.attn.c_proj.bias 4",
                "h.0.attn.c_proj.weight 4x4", "h.0.ln_1.bias 4", "h.0.ln_1.weight 4", "h.0.ln_2.bias 4",
                "h.0.ln_2.weight 4", "h.0.mlp.c_fc.bias 16", "h.0.mlp.c_fc.weight 16x4", "h.0.mlp.c_proj.bias 4",
                "h.0.mlp.c_proj.weight 4x16", "ln_f.bias 4", "ln_f.weight 4", "wpe.weight 9x4", "wte.weight 11x4"});
  const std::string sizes = "depth: 1, width: 12, hidden: 5, heads: 6, kv_heads: 2, vocabulary: 11, tied: ";
  Tensors llama{"embed_tokens.weight 11x12",
                "layers.0.input_layernorm.weight 12",
                "layers.0.mlp.down_proj.weight 12x5",
                "layers.0.mlp.gate_proj.weight 5x12",
                "layers.0.mlp.up_proj.weight 5x12",
                "layers.0.post_attention_layernorm.weight 12",
                "layers.0.self_attn.k_proj.weight 4x12",
                "layers.0.self_attn.o_proj.weight 12x12",
                "layers.0.self_attn.q_proj.weight 12x12",
                "layers.0.self_attn.v_proj.weight 4x12",
                "norm.weight 12"};
  CHECK(tensors_of(graph_of_language_model("llama", sizes + "true", 11)) == llama);
  llama.insert(llama.end() - 1, "lm_head.weight 11x12");
  CHECK(tensors_of(graph_of_language_model("llama", sizes + "false", 11)) == llama);
  Tensors qwen3 = llama;
  for (std::string& tensor : qwen3) {
    if (tensor.find("q_proj") != std::string::npos) tensor = "layers.0.self_attn.q_proj.weight 24x12";
    if (tensor.find("o_proj") != std::string::npos) tensor = "layers.0.self_attn.o_proj.weight 12x24";
    for (const char* part : {"k_proj", "v_proj"})
      if (tensor.find(part) != std::string::npos) tensor.replace(tensor.size() - 4, 4, "8x12");
  }
  qwen3.insert(qwen3.end(), {"layers.0.self_attn.k_norm.weight 4", "layers.0.self_attn.q_norm.weight 4"});
  std::sort(qwen3.begin(), qwen3.end());
  CHECK(tensors_of(graph_of_language_model("qwen3", "head_width: 4, " + sizes + "false", 11)) == qwen3);
}

TEST_CASE("the sizes of Llama stretch positions as their configurations on the hub say") {
  const std::pair<const char*, double> sizes[] = {{"3-8B", 1},    {"3.1-8B", 8},  {"3-70B", 1},
                                                  {"3.1-70B", 8}, {"3.2-1B", 32}, {"3.2-3B", 32}};
  for (const auto& [size, factor] : sizes) {
    const Graph graph = graph_of_language_model("llama", fmt::format("size: {}, depth: 1", size), 128'256);
    const auto attention = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                        [](const GraphNode& node) { return node.op.kind == OpKind::attention; });
    REQUIRE(attention != graph.nodes.end());
    CHECK(attributes_of<AttentionAttributes>(attention->op).rotary_stretch == RotaryStretch{factor, 1, 4, 8192});
  }
}

TEST_CASE("GPT-2's layers that add to its stream start smaller by the root of how many there are") {
  const Graph graph = graph_of_language_model("gpt2", "depth: 8, width: 4, heads: 2, vocabulary: 11, length: 9", 11);
  for (const Parameter& parameter : graph.parameters) {
    INFO(parameter.name);
    CHECK(parameter.scale == (parameter.name.ends_with("c_proj.weight") ? 0.25 : 1));
  }
}

TEST_CASE("the MLP that is shipped has as many layers as it is told, each as wide") {
  const Graph graph = graph_of_model("mlp", "width: 5, depth: 3, classes: 1000, dropout: 0.25", 2);
  CHECK(tensors_of(graph) == std::vector<std::string>{"1.bias 5", "1.weight 5x12", "4.bias 5", "4.weight 5x5",
                                                      "7.bias 5", "7.weight 5x5", "head.bias 1000",
                                                      "head.weight 1000x5"});
}

TEST_CASE("a layer takes the input of its list by the name in") {
  const auto layers_of = [](const std::string& from) {
    const Experiment experiment = parse_experiment(
        "model:\n  layers:\n    - conv2d: {out: 3, kernel: 1}\n    - sequential:\n        name: block\n        "
        "layers:\n"
        "          - conv2d: {out: 3, kernel: 3, padding: 1, name: inner}\n          - add: {from: [inner, " +
            from +
            "]}\n    - global_avgpool\n    - linear: {out: 4}\n"
            "data: {type: synthetic, shape: [5, 5, 3], classes: 4, samples: 4}\n",
        "test.yaml");
    DataDescription data;
    data.inputs = {{.name = "input", .type = {DType::f32, {5, 5, 3}}, .mean = {}, .std = {}}};
    data.num_outputs = data.num_train = data.num_held = 4;
    return build_graph(experiment, data, 2, GraphMode::training);
  };
  const auto inputs_of_add = [](const Graph& graph) {
    const auto add = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [](const GraphNode& node) { return node.op.kind == OpKind::add; });
    REQUIRE(add != graph.nodes.end());
    return add->inputs;
  };
  const Graph by_in = layers_of("in"), by_name = layers_of("'0'"), of_model = layers_of("input");
  CHECK(inputs_of_add(by_in) == inputs_of_add(by_name));
  CHECK(inputs_of_add(of_model)[1] == of_model.inputs[0]);
}

TEST_CASE("a shape mistake in a block is told with who used the block") {
  try {
    graph_of_model("resnet", "depth: 18, classes: 7", 64);
    FAIL("no error");
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    INFO(message);
    CHECK(message.find("configs/models/resnet.yaml:") != std::string::npos);
    CHECK(message.find("\n  used here: model.yaml:1:15") != std::string::npos);
  }
}
