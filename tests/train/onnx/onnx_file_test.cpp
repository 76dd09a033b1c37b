#include "engine/train/onnx/onnx_file.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/train/files/initial_weights.h"
#include "engine/train/onnx/onnx_translation.h"
#include "tests/refusal.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {
namespace {

/// The fields of a message by their numbers, as they come; integers as text.
std::multimap<int, std::string> fields_of(std::string_view bytes) {
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
  };
  std::multimap<int, std::string> fields;
  while (at < bytes.size()) {
    const std::uint64_t tag = varint();
    const int field = static_cast<int>(tag >> 3U);
    if ((tag & 7U) == 0) {
      fields.emplace(field, std::to_string(varint()));
    } else {
      const std::size_t length = (tag & 7U) == 2 ? varint() : 4;
      REQUIRE(at + length <= bytes.size());
      fields.emplace(field, bytes.substr(at, length));
      at += length;
    }
  }
  return fields;
}

std::string one(const std::multimap<int, std::string>& fields, int number) {
  REQUIRE(fields.count(number) == 1);
  return fields.find(number)->second;
}

struct ExportedRun {
  OutputFolder folder;
  TestRun run{small_experiment, folder.path("run"), {"train.steps=4"}};

  ExportedRun() { REQUIRE(run() == RunStatus::done); }

  OnnxFile write(const std::string& name, std::int64_t most_bytes) {
    const Graph graph = build_graph(run.experiment, run.data.description, 2, GraphMode::evaluation);
    const WeightFiles files(initial_weights_file(folder.path("run")));
    const WeightsMatch match = match_weights({}, files, graph);
    return write_onnx(onnx_of(graph, run.data.description), "small", "test", match, files, folder.path(name),
                      most_bytes);
  }
};

/// Initializers by their names, as fields of TensorProto.
std::map<std::string, std::multimap<int, std::string>> initializers_of(const std::string& model) {
  std::map<std::string, std::multimap<int, std::string>> tensors;
  const std::multimap<int, std::string> graph = fields_of(one(fields_of(model), 7));
  for (auto [at, end] = graph.equal_range(5); at != end; ++at) {
    std::multimap<int, std::string> tensor = fields_of(at->second);
    const std::string name = one(tensor, 8);
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace

TEST_CASE("a model is written with its producer, its operators' version, symbolic batch and all weights of its run") {
  ExportedRun exported;
  const OnnxFile written = exported.write("small.onnx", most_onnx_bytes);
  const std::string bytes = file_bytes(exported.folder.path("small.onnx"));
  CHECK(static_cast<std::int64_t>(bytes.size()) == written.num_bytes);
  CHECK(written.data_path.empty());
  const std::multimap<int, std::string> model = fields_of(bytes);
  CHECK(one(model, 1) == "8");
  CHECK(one(model, 2) == "trainer");
  CHECK(one(fields_of(one(model, 8)), 2) == "17");
  const std::multimap<int, std::string> graph = fields_of(one(model, 7));
  CHECK(one(graph, 2) == "small");
  CHECK_THAT(one(graph, 11), Catch::Contains("input") && Catch::Contains("batch"));
  CHECK_THAT(one(graph, 12), Catch::Contains("logits") && Catch::Contains("batch"));

  const auto tensors = initializers_of(bytes);
  const WeightFiles files(initial_weights_file(exported.folder.path("run")));
  std::int64_t num_numbers = 0;
  for (const WeightTensor& tensor : files.tensors()) {
    INFO(tensor.name);
    REQUIRE(tensors.contains(tensor.name));
    std::string raw(static_cast<std::size_t>(tensor.type.num_bytes()), '\0');
    files.read(tensor, 0, tensor.type.num_bytes(), raw.data());
    CHECK((one(tensors.at(tensor.name), 9) == raw));
    CHECK(tensors.at(tensor.name).count(1) == static_cast<std::size_t>(tensor.type.shape.rank()));
    num_numbers += tensor.type.num_elements();
  }
  CHECK(written.num_parameters == num_numbers);
}

TEST_CASE("parameters that one message has no room for lie in a file beside it, at the offsets that it names") {
  ExportedRun exported;
  exported.write("small.onnx", most_onnx_bytes);
  const OnnxFile written = exported.write("large.onnx", 100);
  CHECK(written.data_path == exported.folder.path("large.onnx.data"));
  const std::string data = file_bytes(written.data_path);
  CHECK(static_cast<std::int64_t>(data.size()) == written.data_bytes);
  const std::string bytes = file_bytes(exported.folder.path("large.onnx"));
  CHECK(static_cast<std::int64_t>(bytes.size()) == written.num_bytes);
  const auto inside = initializers_of(file_bytes(exported.folder.path("small.onnx"))), outside = initializers_of(bytes);
  REQUIRE(inside.size() == outside.size());
  int num_outside = 0;
  for (const auto& [name, tensor] : outside) {
    INFO(name);
    const std::string raw = one(inside.at(name), 9);
    if (tensor.contains(9)) {
      CHECK((one(tensor, 9) == raw));  // a constant
      continue;
    }
    ++num_outside;
    CHECK(one(tensor, 14) == "1");
    std::map<std::string, std::string> entries;
    for (auto [at, end] = tensor.equal_range(13); at != end; ++at)
      entries.emplace(one(fields_of(at->second), 1), one(fields_of(at->second), 2));
    CHECK(entries.at("location") == "large.onnx.data");
    CHECK((data.substr(std::stoul(entries.at("offset")), std::stoul(entries.at("length"))) == raw));
  }
  CHECK(num_outside == 8);
}

TEST_CASE("a layer that ONNX has no form for is named, with its place") {
  const Experiment experiment = parse_experiment(
      "data: {type: tokens, train: none.bin, sequence_length: 6, classes: 9, samples: 8, document_token: 1}\n"
      "model:\n  layers:\n    - embedding: {num: 9, dim: 4}\n    - linear: {out: 12}\n"
      "    - attention: {heads: 2, causal: true, name: mix}\n    - linear: {out: 9}\n",
      "documents.yaml", {});
  DataDescription data;
  data.inputs = {{.type = {DType::i32, Shape{6}}, .mean = {}, .std = {}, .num_indices = 9}};
  data.target = {DType::i32, Shape{6}};
  data.num_outputs = 9;
  data.num_train = 8;
  const Graph graph = build_graph(experiment, data, 2, GraphMode::evaluation);
  try {
    onnx_of(graph, data);
    FAIL("attention within documents is refused");
  } catch (const ConfigError& error) {
    CHECK_THAT(error.what(), Catch::Contains("documents.yaml:") && Catch::Contains("has no form in ONNX"));
  }
}

TEST_CASE("constants are written once, and a value that is asked for in both orders is turned once") {
  OnnxGraph graph;
  const std::string first = graph.numbers({1, 2}, {2});
  CHECK(graph.numbers({1, 2}, {2}) == first);
  CHECK(graph.numbers({1, 2}, {1, 2}) != first);
  CHECK(graph.integers({1}) != graph.number(1));
  CHECK(graph.initializers().size() == 4);
  CHECK(graph.parameter("w", {3, 4}) == "w");
  CHECK(graph.parameter("w", {3, 4}) == "w");
  CHECK(graph.initializers().back().num_bytes() == 48);
  CHECK(graph.initializers().size() == 5);
}

}  // namespace trainer
