#include "engine/train/files/safetensors.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "engine/errors.h"
#include "tests/refusal.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// A file from its header text and data, as the format defines it.
std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i)));
  return bytes + header + data;
}

std::string refusal_of_file(const std::string& path) {
  return refusal_of<DataError>([&] { const SafetensorsFile file(path); });
}

}  // namespace

TEST_CASE("Tensors come back from a safetensors file as they were written") {
  const OutputFolder folder;
  const std::string path = folder.path("a.safetensors");
  const std::vector<NamedTensor> tensors = {{"fc.weight", {DType::f32, Shape{3, 5}}},
                                            {"pixels", {DType::u8, Shape{7}}},
                                            {"scalar", {DType::i64, Shape{}}},
                                            {"none", {DType::f32, Shape{0, 4}}},
                                            {"a \"name\"\n", {DType::i32, Shape{1}}}};
  std::vector<std::string> contents;
  for (const NamedTensor& tensor : tensors) {
    std::string bytes(static_cast<std::size_t>(tensor.type.num_bytes()), '\0');
    std::iota(bytes.begin(), bytes.end(), static_cast<char>(contents.size() * 16));
    contents.push_back(bytes);
  }
  SafetensorsWriter writer(path, tensors, {{"format", "pt"}});
  for (const std::string& bytes : contents) writer.append(bytes.data(), static_cast<std::int64_t>(bytes.size()));
  writer.finish();
  CHECK(writer.file_bytes() == std::filesystem::file_size(path));

  const SafetensorsFile file(path);
  REQUIRE(file.tensors().size() == tensors.size());
  CHECK(file.metadata().at("format") == "pt");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::ptrdiff_t position = file.find(tensors[i].name);
    REQUIRE(position >= 0);
    CHECK(file.tensors()[static_cast<std::size_t>(position)].type == tensors[i].type);
    std::string read(contents[i].size(), '\xff');
    file.read(static_cast<std::size_t>(position), read.data());
    CHECK(read == contents[i]);
  }
  CHECK(file.find("fc.bias") == -1);
}

TEST_CASE("The bytes of a safetensors file are the format's: length, padded header, data without gaps") {
  const OutputFolder folder;
  const std::string path = folder.path("a.safetensors");
  const std::vector<NamedTensor> tensors = {{"b", {DType::f32, Shape{2}}}, {"a", {DType::u8, Shape{1}}}};
  SafetensorsWriter writer(path, tensors);
  const float values[2] = {1.5F, -2.0F};
  writer.append(values, sizeof(values));
  writer.append("x", 1);
  writer.finish();
  std::string header =
      R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string data(reinterpret_cast<const char*>(values), sizeof(values));
  CHECK(file_bytes(path) == file_of(header, data + "x"));
}

TEST_CASE("Every damaged safetensors file is refused with its reason") {
  struct Case {
    std::string bytes, reason;
  };
  const std::string good = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string eight(8, 'x');
  const auto header = [&](const std::string& text) { return file_of(text, eight); };
  const std::vector<Case> cases = {
      {"", "0 bytes"},
      {"short", "5 bytes"},
      {file_of(good, eight).substr(0, 30), "cut off"},
      {file_of(good, eight).substr(0, file_of(good, eight).size() - 1), "cut off"},
      {file_of(good, eight) + "y", "belong to none"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + good, "at most 100000000"},
      {header(" " + good), "begin with"},
      {header("[]"), "begin with"},
      {header("{\"w\":"), "not JSON"},
      {header(good + "{}"), "not JSON"},
      {header(R"({"w":[1]})"), "where none belongs"},
      {header(R"({"w":{"dtype":"F32","shape":[2]}})"), "lacks"},
      {header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}})"), "data_offsets"},
      {header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})"), "data_offsets"},
      {header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})"), "unknown field"},
      {header(R"({"w":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})"), "not supported"},
      {header(R"({"w":{"dtype":"F32","shape":[1,1,1,1,1,2],"data_offsets":[0,8]}})"), "dimensions"},
      {header(R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"), "negative"},
      {header(R"({"w":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})"), "fraction"},
      {header(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"), "needs 12 bytes"},
      {header(R"({"w":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,8]}})"), "no file can hold"},
      {header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"), "hole"},
      {header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
       "overlap"},
      {header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
       "occurs twice"},
      {header(R"({"w":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"), "occurs twice"},
      {header(R"({"__metadata__":{"a":1},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"), "a number"},
      {header(R"({"__metadata__":{"a":{"b":"c"}}})"), "an object"},
      {file_of(std::string(1'000'000, '{'), eight), "not JSON"},
      {file_of("{\"w\":{\"shape\":" + std::string(1'000'000, '['), eight), "where none belongs"},
  };
  const OutputFolder folder;
  const std::string path = folder.path("a.safetensors");
  write_bytes(path, file_of(good, eight));
  REQUIRE(refusal_of_file(path) == "it was taken");
  for (const Case& damaged : cases) {
    write_bytes(path, damaged.bytes);
    const std::string answer = refusal_of_file(path);
    CHECK_THAT(answer, Contains(path));
    CHECK_THAT(answer, Contains(damaged.reason));
  }
  CHECK_THAT(refusal_of_file(folder.path("missing")), Contains("cannot open"));
  CHECK_THAT(refusal_of_file(folder.path()), Contains(folder.path()));
}

TEST_CASE("Tensors of types that trainer has not are listed apart, and what lies behind them is found") {
  const OutputFolder folder;
  const std::string path = folder.path("a.safetensors");
  write_bytes(path, file_of(R"({"mask":{"dtype":"BOOL","shape":[2,2],"data_offsets":[0,4]},)"
                            R"("w":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}})",
                            "\1\1\1\1abc"));
  const SafetensorsFile file(path);
  REQUIRE(file.foreign().size() == 1);
  CHECK(file.foreign()[0].name == "mask");
  CHECK(file.foreign()[0].dtype == "BOOL");
  CHECK(file.foreign()[0].shape == Shape{2, 2});
  CHECK(file.find("mask") == -1);
  REQUIRE(file.find("w") == 0);
  std::string bytes(3, ' ');
  file.read(0, bytes.data());
  CHECK(bytes == "abc");
  write_bytes(path, file_of(R"({"mask":{"dtype":"BOOL","shape":[2,2],"data_offsets":[0,3]}})", "\1\1\1"));
  CHECK_THAT(refusal_of_file(path), Contains("needs 4 bytes"));
}

TEST_CASE("A safetensors file cut anywhere is refused") {
  const std::string whole = file_of(R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "abc");
  const OutputFolder folder;
  const std::string path = folder.path("a.safetensors");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(path, whole.substr(0, size));
    CHECK(refusal_of_file(path) != "it was taken");
  }
}
