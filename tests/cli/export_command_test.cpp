#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <map>

#include "engine/half.h"
#include "engine/train/files/safetensors.h"
#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// A tensor of a file.
struct FileTensor {
  TensorType type;
  std::vector<std::byte> bytes;
  friend bool operator==(const FileTensor&, const FileTensor&) = default;
};
using FileTensors = std::map<std::string, FileTensor>;

FileTensors tensors_of(const std::string& path) {
  const SafetensorsFile file(path);
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  FileTensors tensors;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    FileTensor& tensor = tensors[file.tensors()[i].name];
    tensor.type = file.tensors()[i].type;
    tensor.bytes.resize(static_cast<std::size_t>(tensor.type.num_bytes()));
    file.read(i, tensor.bytes.data());
  }
  return tensors;
}

std::vector<float> numbers_of(const FileTensor& tensor) {
  std::vector<float> numbers(static_cast<std::size_t>(tensor.type.num_elements()));
  if (tensor.type.dtype == DType::f32)
    std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
  else
    widen(tensor.type.dtype, tensor.bytes.data(), numbers.data(), tensor.type.num_elements());
  return numbers;
}

constexpr std::int64_t width = 4, vocabulary = 7, length = 5;

/// GPT-2 of one layer as the hub has it: its Conv1D's matrices are in × out, and the mask lies beside the weights.
std::vector<NamedTensor> hub_tensors() {
  const auto f32 = [](std::initializer_list<std::int64_t> dims) { return TensorType{DType::f32, Shape(dims)}; };
  return {{"h.0.attn.bias", f32({1, 1, length, length})},
          {"h.0.attn.c_attn.bias", f32({3 * width})},
          {"h.0.attn.c_attn.weight", f32({width, 3 * width})},
          {"h.0.attn.c_proj.bias", f32({width})},
          {"h.0.attn.c_proj.weight", f32({width, width})},
          {"h.0.ln_1.bias", f32({width})},
          {"h.0.ln_1.weight", f32({width})},
          {"h.0.ln_2.bias", f32({width})},
          {"h.0.ln_2.weight", f32({width})},
          {"h.0.mlp.c_fc.bias", f32({4 * width})},
          {"h.0.mlp.c_fc.weight", f32({width, 4 * width})},
          {"h.0.mlp.c_proj.bias", f32({width})},
          {"h.0.mlp.c_proj.weight", f32({4 * width, width})},
          {"ln_f.bias", f32({width})},
          {"ln_f.weight", f32({width})},
          {"wpe.weight", f32({length, width})},
          {"wte.weight", f32({vocabulary, width})}};
}

/// A hub's file, and a run of no steps that began with it.
struct HubFolder : ScratchFolder {
  HubFolder() {
    const std::vector<NamedTensor> tensors = hub_tensors();
    SafetensorsWriter writer(hub(), tensors, {{"format", "pt"}});
    float number = -3;
    for (const NamedTensor& tensor : tensors) {
      std::vector<float> numbers;
      for (std::int64_t i = 0; i < tensor.type.num_elements(); ++i) numbers.push_back(number += 0.037F);
      writer.append(numbers.data(), tensor.type.num_bytes());
    }
    writer.finish();
    std::ofstream ids(*this / "ids.bin", std::ios::binary);
    for (int i = 0; i < 200; ++i) ids.put(static_cast<char>(i / 2 * (1 - i % 2) % vocabulary));
    ids.close();
    std::ofstream config(this->config());
    config << "name: hub\ndevice: {type: cpu, threads: 1}\ndata: {type: tokens, train: " << *this / "ids.bin"
           << ", split: 0.1, sequence_length: 4, classes: " << vocabulary
           << "}\nmodel: {file: models/gpt2.yaml, with: {depth: 1, width: " << width
           << ", heads: 2, vocabulary: " << vocabulary << ", length: " << length << "}}\n"
           << "optimizer: {type: adamw, lr: 0.01}\ntrain: {batch_size: 2, steps: 0}\nweights: {file: " << hub()
           << ", map: hub}\noutput: " << run() << "\n";
    config.close();
    const ProcessResult result = run_trainer({"run", this->config(), "-q"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
  }
  std::string hub() const { return *this / "hub.safetensors"; }
  std::string config() const { return *this / "hub.yaml"; }
  std::string run() const { return *this / "run"; }
  std::string checkpoint() const { return run() + "/checkpoints/step-00000000"; }
  std::string out() const { return *this / "out.safetensors"; }
};

ProcessResult exported(std::vector<std::string> words) {
  words.insert(words.begin(), "export");
  const ProcessResult result = run_trainer(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.empty());
  return result;
}

}  // namespace

TEST_CASE("a file of the hub without its map is refused, and a square matrix is told not to show its axes") {
  const HubFolder folder;
  const ProcessResult result = run_trainer({"check", folder.config(), "weights={file: " + folder.hub() + "}"});
  CHECK(result.exit_code != 0);
  std::string line = result.err;
  std::replace(line.begin(), line.end(), '\n', ' ');
  CHECK_THAT(line, Contains("weights.transpose: [h.0.attn.c_attn.weight, h.0.mlp.c_fc.weight, h.0.mlp.c_proj.weight]"));
  CHECK_THAT(line, Contains("such as h.0.attn.c_proj.weight: weights.map names a map of the model file that knows"));
}

TEST_CASE("a file of the hub is loaded and saved back equal, but for what its map ignores") {
  const HubFolder folder;
  FileTensors expected = tensors_of(folder.hub());
  expected.erase("h.0.attn.bias");
  for (const std::string& source : {folder.run(), folder.checkpoint(), folder.config()}) {
    const ProcessResult result = exported({source, "--names", "hub", "-o", folder.out(), "--overwrite"});
    CHECK(tensors_of(folder.out()) == expected);
    // Lines may be broken between any two words: where depends on the length of the folder's name.
    std::string line = result.out;
    std::replace(line.begin(), line.end(), '\n', ' ');
    CHECK_THAT(line, Contains("16 tensors, 300 numbers in f32, by the map 'hub', from "));
  }
  // The data is not needed where the model writes texts.
  std::filesystem::remove(folder / "ids.bin");
  exported({folder.config(), "--names", "hub", "-o", folder.out(), "--overwrite", "-q"});
  CHECK(tensors_of(folder.out()) == expected);
  // Through a file by the model's own names, as it is kept in checkpoints.
  exported({folder.run(), "-o", folder / "own.safetensors"});
  const FileTensors own = tensors_of(folder / "own.safetensors");
  CHECK(own == tensors_of(folder.checkpoint() + "/model.safetensors"));
  CHECK(own.at("h.0.mlp.c_fc.weight").type.shape == Shape{4 * width, width});
  exported({folder.config(), "weights={}", "--weights", folder / "own.safetensors", "--names", "hub", "-o",
            folder.out(), "--overwrite"});
  CHECK(tensors_of(folder.out()) == expected);
}

TEST_CASE("an exported model is rounded where that is asked for, and what has no such number is refused") {
  const HubFolder folder;
  const FileTensors expected = tensors_of(folder.hub());
  for (const auto& [name, type] : {std::pair{"bf16", DType::bf16}, {"f16", DType::f16}, {"f32", DType::f32}}) {
    const ProcessResult result =
        exported({folder.run(), "--names", "hub", "--dtype", name, "-o", folder.out(), "--overwrite", "--json"});
    const nlohmann::json told = nlohmann::json::parse(result.out);
    CHECK(told["event"] == "export");
    CHECK(told["names"] == "hub");
    CHECK(told["tensors"] == 16);
    CHECK(told["dtypes"] == std::vector<std::string>{name});
    CHECK(told["bytes"] == std::filesystem::file_size(folder.out()));
    const FileTensors found = tensors_of(folder.out());
    CHECK(found.size() == expected.size() - 1);
    for (const auto& [tensor, of_file] : found) {
      INFO(tensor);
      CHECK(of_file.type == TensorType{type, expected.at(tensor).type.shape});
      std::vector<float> rounded = numbers_of(expected.at(tensor));
      std::vector<std::byte> bytes(static_cast<std::size_t>(of_file.type.num_bytes()));
      narrow(type, rounded.data(), bytes.data(), of_file.type.num_elements());
      CHECK(of_file.bytes == bytes);
    }
  }
  // 70,000 is beyond f16, and nothing is left of the file.
  const std::string large = folder / "large.safetensors";
  SafetensorsWriter writer(large, std::vector<NamedTensor>{{"0.weight", {DType::f32, {2, 1}}}});
  const std::array<float, 2> numbers = {1, 70000};
  writer.append(numbers.data(), sizeof(numbers));
  writer.finish();
  const std::string config = folder / "one.yaml";
  std::ofstream(config) << "data: {type: synthetic, shape: [1], classes: 2, samples: 4}\n"
                           "model: {layers: [linear: {out: 2, bias: false}]}\nweights: {file: "
                        << large << "}\n";
  const ProcessResult refused = run_trainer({"export", config, "--dtype", "f16", "-o", folder / "f16.safetensors"});
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.err, Contains("tensor '0.weight' holds a number that is not finite as f16"));
  CHECK_FALSE(std::filesystem::exists(folder / "f16.safetensors"));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    CHECK(entry.path().extension() != ".tmp");
  exported({config, "--dtype", "bf16", "-o", folder / "bf16.safetensors"});
}

TEST_CASE("what cannot be exported is said, and no file is touched") {
  const HubFolder folder;
  std::ofstream(folder / "own.yaml") << "data: {type: synthetic, shape: [1], classes: 2, samples: 4}\n"
                                        "model: {layers: [linear: {out: 2}]}\n";
  std::filesystem::create_directory(folder / "empty");
  std::ofstream(folder / "kept.safetensors") << "mine";
  const std::string model = folder.checkpoint() + "/model.safetensors";
  const std::filesystem::file_time_type written = std::filesystem::last_write_time(model);
  struct Refused {
    std::vector<std::string> words;
    int exit_code;
    std::string said;
  };
  const std::vector<Refused> all = {
      {{folder.run(), "--names", "hubb"}, 2, "there is no map 'hubb'; the model has hub; did you mean 'hub'?"},
      {{folder / "own.yaml"}, 2, "names no weights to export"},
      {{folder.config(), "weights.new=[wpe.weight]"}, 2, "leaves parameters without a value to export"},
      {{folder.config(), "weights.ignore=[wpe.weight]"}, 6, "wpe.weight: only the model has it"},
      {{folder.config(), "model.maps={own: {rename: [['^x\\.', '']]}}", "--names", "own"},
       2,
       "names cannot be written by the map 'own': `rename` makes 'wte.weight' of 'x.wte.weight' as well as of"},
      {{folder.run(), "optimizer.lr=1"}, 2, "is exported as it is"},
      {{folder.run(), "--weights", folder.hub()}, 2, "is exported as it is"},
      {{folder / "empty"}, 6, "holds no weights"},
      {{folder.run(), "--dtype", "f64"}, 2, "f64"},
      {{folder.run(), "--onnx", folder / "model.onnx"}, 2, "--output excludes --onnx"},
      {{folder.run(), "--overwrite", "-o", model}, 6, "is read by this command"},
      {{folder.run(), "-o", folder / "kept.safetensors"}, 6, "exists; name another file, or replace it"},
      {{folder.run(), "-o", folder / "no/such/folder.safetensors"}, 6, "cannot write"},
  };
  for (const Refused& one : all) {
    std::vector<std::string> words = one.words;
    words.insert(words.begin(), "export");
    if (std::find(words.begin(), words.end(), "-o") == words.end()) words.insert(words.end(), {"-o", folder.out()});
    const ProcessResult result = run_trainer(words);
    INFO(one.said);
    CHECK(result.exit_code == one.exit_code);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains(one.said));
    CHECK_FALSE(std::filesystem::exists(folder.out()));
  }
  for (const Refused& one : std::vector<Refused>{
           {{folder.run()}, 2, "-o FILE, --to DIR or --onnx FILE says what is to be written"},
           {{folder.run(), "--dtype", "f16", "--onnx", folder / "model.onnx"},
            2,
            "--names, --half and --dtype go without it"},
           {{folder.run(), "--weights", folder.hub(), "--onnx", folder / "model.onnx"}, 2, "is exported as it is"},
           {{folder / "own.yaml", "--onnx", folder / "model.onnx"}, 2, "names no weights to export"},
           {{folder.run(), "--onnx", folder / "kept.safetensors"}, 6, "exists; name another file, or replace it"},
           {{folder.run(), "--overwrite", "--onnx", model}, 6, "is read by this command"}}) {
    std::vector<std::string> words = one.words;
    words.insert(words.begin(), "export");
    const ProcessResult result = run_trainer(words);
    INFO(one.said);
    CHECK(result.exit_code == one.exit_code);
    CHECK_THAT(result.err, Contains(one.said));
    CHECK_FALSE(std::filesystem::exists(folder / "model.onnx"));
  }
  CHECK(std::filesystem::last_write_time(model) == written);
  CHECK(std::filesystem::file_size(folder / "kept.safetensors") == 4);

  // A checkpoint whose weights were changed since is none.
  std::fstream(model, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('x');
  const ProcessResult changed = run_trainer({"export", folder.run(), "-o", folder.out()});
  CHECK(changed.exit_code == 6);
  CHECK_THAT(changed.err, Contains("the contents of model.safetensors have changed"));
}
