#include "engine/train/files/weight_files.h"

#include "engine/train/files/safetensors_index.h"
#include "tests/train/files/weights_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

std::string refusal_of_files(const std::string& path) {
  try {
    const WeightFiles files(path);
  } catch (const DataError& error) {
    return error.what();
  }
  return "they were taken";
}

std::string index_of(const std::vector<std::pair<std::string, std::string>>& places) {
  std::string text = R"({"metadata": {"total_size": 1}, "weight_map": {)";
  for (const auto& [name, shard] : places)
    text += (text.back() == '{' ? "" : ", ") + ("\"" + name + "\": \"" + shard + "\"");
  return text + "}}";
}

constexpr const char* first_shard = "model-00001-of-00002.safetensors";
constexpr const char* second_shard = "model-00002-of-00002.safetensors";

}  // namespace

TEST_CASE("Shards are one list of tensors, by their index or the folder of it") {
  const OutputFolder folder;
  write_tensors(folder.path(first_shard), {counted("a", {3}), counted("b", {2, 2})});
  write_tensors(folder.path(second_shard), {counted("c", {1})});
  const std::string index = folder.path("model.safetensors.index.json");
  write_bytes(index, index_of({{"c", second_shard}, {"a", first_shard}, {"b", first_shard}}));
  for (const std::string& path : {index, folder.path()}) {
    const WeightFiles files(path);
    CHECK(files.path() == index);
    REQUIRE(files.tensors().size() == 3);
    CHECK(files.files().size() == 2);
    const WeightTensor& last = files.tensors()[2];
    CHECK(last.name == "c");
    float value = 0;
    files.read(last, 0, sizeof(value), &value);
    CHECK(value == 0.5F);
  }
}

TEST_CASE("An index and its shards agree, or what they disagree about is told") {
  const OutputFolder folder;
  write_tensors(folder.path(first_shard), {counted("a", {3}), counted("b", {2, 2})});
  const std::string index = folder.path("some.safetensors.index.json");
  const auto told = [&](const std::string& text) {
    write_bytes(index, text);
    return refusal_of_files(index);
  };
  CHECK(told(index_of({{"a", first_shard}, {"b", first_shard}})) == "they were taken");
  CHECK_THAT(told(index_of({{"a", first_shard}, {"b", second_shard}})),
             Contains("names files that are not beside it: " + std::string(second_shard)));
  CHECK_THAT(told(index_of({{"a", first_shard}})), Contains("does not say where these tensors are: 'b' of"));
  CHECK_THAT(told(index_of({{"a", first_shard}, {"b", first_shard}, {"c", first_shard}})),
             Contains("names tensors that are not where it says: 'c' in"));
  write_tensors(folder.path(second_shard), {counted("c", {1}), counted("a", {3})});
  CHECK_THAT(told(index_of({{"a", first_shard}, {"b", first_shard}, {"c", second_shard}})),
             Contains("does not say where these tensors are: 'a' of " + std::string(second_shard)));
  write_bytes(folder.path(second_shard), "damaged shard");
  CHECK_THAT(told(index_of({{"a", first_shard}, {"b", first_shard}, {"c", second_shard}})), Contains(second_shard));
}

TEST_CASE("What an index may not say is refused before any file is opened") {
  const OutputFolder folder;
  const std::string index = folder.path("model.safetensors.index.json");
  const auto told = [&](const std::string& text) {
    write_bytes(index, text);
    return refusal_of_files(index);
  };
  for (const char* shard : {"../a.safetensors", "/etc/a.safetensors", "sub/a.safetensors", "..\\\\a.safetensors",
                            ".a.safetensors", "..", ""}) {
    INFO(shard);
    CHECK_THAT(told(index_of({{"a", shard}})),
               Contains("is not the name of a file beside the index") || Contains("is empty"));
  }
  CHECK_THAT(told(index_of({{"a", "pytorch_model.bin"}})), Contains("is not a .safetensors file"));
  CHECK_THAT(told(index_of({{"a", "a\\u0000.safetensors"}})), Contains("cannot name a file"));
  CHECK_THAT(told(index_of({{"a", std::string(300, 'a') + ".safetensors"}})), Contains("longer than a file's name"));
  CHECK_THAT(told(index_of({{"a", "a.safetensors"}, {"a", "b.safetensors"}})), Contains("'a' occurs twice"));
  CHECK_THAT(told(index_of({})), Contains("'weight_map' is empty"));
  CHECK_THAT(told("{}"), Contains("no 'weight_map'"));
  CHECK_THAT(told("[]"), Contains("not an object"));
  CHECK_THAT(told("3"), Contains("not an object"));
  CHECK_THAT(told(""), Contains("not JSON"));
  CHECK_THAT(told(R"({"weight_map": {"a": "a.safetensors")"), Contains("not JSON"));
  CHECK_THAT(told(R"({"weight_map": 1})"), Contains("'weight_map' is a number"));
  CHECK_THAT(told(R"({"weight_map": ["a"]})"), Contains("'weight_map' is a list"));
  CHECK_THAT(told(R"({"weight_map": {"a": 1}})"), Contains("gives 'a' a number"));
  CHECK_THAT(told(R"({"weight_map": {"a": ["b"]}})"), Contains("gives 'a' a list"));
  CHECK_THAT(told(R"({"weight_map": {"a": {"b": "c"}}})"), Contains("gives 'a' an object"));
  CHECK_THAT(told(R"({"weight_map": {}, "weight_map": {}})"), Contains("twice"));
  CHECK_THAT(told(R"({"metadata": )" + std::string(200'000, '[')), Contains("not JSON"));
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 600; ++i) many.emplace_back("t" + std::to_string(i), std::to_string(i) + ".safetensors");
  CHECK_THAT(told(index_of(many)), Contains("names 600 files, at most 512"));
}

TEST_CASE("Pickles are told by their content and come with the line that converts them") {
  const OutputFolder folder;
  const std::string zip = folder.path("it's.safetensors"), pickle = folder.path("old.pth");
  write_bytes(zip, std::string("PK\x03\x04", 4) + std::string(30, 'x'));
  write_bytes(pickle, std::string("\x80\x02\x8a\nl\xfc\x9c", 7));
  CHECK_THAT(refusal_of_files(zip), Contains("is a pickle of PyTorch") && Contains("'\\''s.safetensors'"));
  CHECK_THAT(refusal_of_files(pickle), Contains("python3 -c \"import sys, torch;") && Contains("save_file(") &&
                                           Contains(pickle + " " + folder.path("old.safetensors")));
  // The length of a header may begin as a pickle does.
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.append(0x280 - header.size(), ' ');
  write_bytes(pickle, std::string("\x80\x02\0\0\0\0\0\0", 8) + header + "x");
  CHECK(refusal_of_files(pickle) == "they were taken");
  write_bytes(pickle, "\x89HDF\r\n\x1a\n and more");
  CHECK_THAT(refusal_of_files(pickle), Contains("is HDF5"));
  write_bytes(pickle, "GGUF and more of it");
  CHECK_THAT(refusal_of_files(pickle), Contains("is GGUF"));
}
