#include "engine/train/files/exported_model.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/program/prediction.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/initial_weights.h"
#include "engine/train/files/intact_weights.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/files/trained_model.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

constexpr const char* digits_experiment = R"(
name: digits
seed: 5
device: {type: cpu, threads: 1}
data: {type: digits, normalize: {mean: 0.25, std: 0.5}}
model:
  layers:
    - conv2d: {out: 4, kernel: 3, stride: 2}
    - batchnorm2d
    - relu
    - flatten
    - linear: {out: 10}
loss: {type: cross_entropy, label_smoothing: 0.1}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 64, steps: 3, amp: bf16}
)";

/// A run of three steps, and where it is exported to.
struct ExportedDigits {
  OutputFolder folder;
  TestRun run;

  explicit ExportedDigits(const std::string& yaml = digits_experiment) : run(yaml, folder.path("run")) { run(); }
  std::string to() const { return folder.path("exported"); }

  ExportedWeights write(std::optional<DType> type = std::nullopt) const {
    const WeightFiles files(initial_weights_file(folder.path("run")));
    const Checkpoint checkpoint = read_checkpoint(fs::path(files.path()).parent_path());
    return write_exported_model({.match = match_of_own(files),
                                 .files = files,
                                 .type = type,
                                 .experiment = run.experiment,
                                 .data = run.data.description,
                                 .preprocessing = checkpoint.state.preprocessing,
                                 .tokenizer_files = {},
                                 .trainer_version = "test"},
                                to());
  }
  std::string file(const std::string& name) const { return to() + "/" + name; }
};

}  // namespace

TEST_CASE("an exported model is read back as it was trained, and by its run") {
  const ExportedDigits exported;
  const ExportedWeights written = exported.write();
  CHECK(written.num_tensors == 8);
  CHECK(is_exported_model(exported.to()));
  const TrainedModel model = read_trained_model(exported.to(), {});
  const TrainedModel of_run = read_trained_model(exported.folder.path("run"), {});
  const TrainedModel of_checkpoint = read_trained_model(fs::path(of_run.weights_file).parent_path(), {});
  for (const TrainedModel* each : {&model, &of_run, &of_checkpoint}) {
    CHECK(each->data.inputs == exported.run.data.description.inputs);
    CHECK(each->experiment.name == "digits");
    CHECK(each->experiment.seed == 5);
    CHECK(each->experiment.train.amp == Amp::bf16);
    CHECK(each->experiment.weights.file.empty());
    CHECK(each->preprocessing == exported.run.data.preprocessing);
    CHECK(each->experiment.losses.size() == 1);
    CHECK(each->experiment.losses.front().type == LossType::cross_entropy);
  }
  CHECK(file_bytes(model.weights_file) == file_bytes(of_run.weights_file));
}

TEST_CASE("an exported model holds nothing of its training") {
  const ExportedDigits exported;
  exported.write();
  const std::string config = file_bytes(exported.file("config.yaml"));
  for (const char* word : {"optimizer", "schedule", "train:", "checkpoint", "output", "memory", "device", "smoothing",
                           "split", "weights", "normalize: {mean: [0.25], std: [0.5]}"})
    CHECK((config.find(word) != std::string::npos) == (std::string(word).starts_with("normalize")));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(exported.to())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"config.yaml", "model.safetensors", "prediction.json"});
  // Nothing is left beside it.
  for (const auto& entry : fs::directory_iterator(exported.folder.path()))
    CHECK(!entry.path().filename().string().starts_with("."));
}

TEST_CASE("weights in 16 bit are those, rounded") {
  const ExportedDigits exported;
  exported.write(DType::f16);
  const SafetensorsFile file(exported.file("model.safetensors"));
  for (const NamedTensor& tensor : file.tensors()) CHECK(tensor.type.dtype == DType::f16);
  CHECK_NOTHROW(read_trained_model(exported.to(), {}));
}

TEST_CASE("paths of training data become words where the format asks for some") {
  const OutputFolder data;
  write_bytes(data.path("table.csv"), "a,b,y\n1,2,0\n2,1,1\n3,5,0\n4,4,1\n");
  const ExportedDigits exported(
      "name: table\ndevice: {type: cpu, threads: 1}\ndata: {type: csv, train: " + data.path("table.csv") +
      "}\nmodel: {layers: [{linear: {out: 2}}]}\ntrain: {batch_size: 4, steps: 2}\n");
  exported.write();
  CHECK_THAT(file_bytes(exported.file("config.yaml")), !Contains(data.path()));
  CHECK_THAT(file_bytes(exported.file("prediction.json")), !Contains(data.path()));
  fs::remove(data.path("table.csv"));
  const TrainedModel model = read_trained_model(exported.to(), {});
  CHECK(model.preprocessing == exported.run.data.preprocessing);
  CHECK(model.data.inputs.front().type == TensorType{DType::f32, Shape{2}});
}

TEST_CASE("only an exported model is replaced, and only where that is asked for") {
  const ExportedDigits exported;
  CHECK_NOTHROW(check_export_place(exported.to(), false));
  fs::create_directory(exported.to());
  CHECK_THROWS_WITH(check_export_place(exported.to(), true), Contains("is no exported model"));
  write_bytes(exported.file("prediction.json"), R"({"format": "something else"})");
  CHECK_THROWS_WITH(check_export_place(exported.to(), true), Contains("is no exported model"));
  fs::remove_all(exported.to());
  exported.write();
  CHECK_THROWS_WITH(check_export_place(exported.to(), false), Contains("--overwrite"));
  CHECK_NOTHROW(check_export_place(exported.to(), true));
  write_bytes(exported.file("stray"), "x");
  exported.write();
  CHECK(!fs::exists(exported.file("stray")));
  CHECK_NOTHROW(read_trained_model(exported.to(), {}));
}

TEST_CASE("a fault on the way leaves what was there") {
  const ExportedDigits exported;
  exported.write();
  const std::string before = file_bytes(exported.file("model.safetensors"));
  const WeightFiles files(initial_weights_file(exported.folder.path("run")));
  const auto fails = [&] {
    write_exported_model({.match = match_of_own(files),
                          .files = files,
                          .type = std::nullopt,
                          .experiment = exported.run.experiment,
                          .data = exported.run.data.description,
                          .preprocessing = {},
                          .tokenizer_files = {{exported.folder.path("no such file"), "tokenizer.json"}},
                          .trainer_version = "test"},
                         exported.to());
  };
  CHECK_THROWS_AS(fails(), DataError);
  CHECK(file_bytes(exported.file("model.safetensors")) == before);
  CHECK_NOTHROW(read_trained_model(exported.to(), {}));
  for (const auto& entry : fs::directory_iterator(exported.folder.path()))
    CHECK(!entry.path().filename().string().starts_with("."));
}

TEST_CASE("an exported model that was changed is refused") {
  const ExportedDigits exported;
  exported.write();
  const auto refusal = [&] {
    try {
      read_trained_model(exported.to(), {});
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal().empty());
  const std::string weights = file_bytes(exported.file("model.safetensors"));
  std::string changed = weights;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  write_bytes(exported.file("model.safetensors"), changed);
  CHECK_THAT(refusal(), Contains("model.safetensors have changed"));
  write_bytes(exported.file("model.safetensors"), weights.substr(0, 100));
  CHECK_THAT(refusal(), Contains("model.safetensors have changed"));
  write_bytes(exported.file("model.safetensors"), weights);

  const std::string text = file_bytes(exported.file("prediction.json"));
  for (const auto& [pointer, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"/format_version", 2},
                                                           {"/amp", "fp64"},
                                                           {"/amp", 3},
                                                           {"/inputs/0/shape", {8, 8}},
                                                           {"/inputs/0/shape", {8, 0, 1}},
                                                           {"/inputs/0/shape", {1 << 20, 1 << 20, 1}},
                                                           {"/inputs/0/type", "i7"},
                                                           {"/inputs/0/std", {0}},
                                                           {"/inputs/0/mean", {1, 2}},
                                                           {"/inputs", nlohmann::json::array()},
                                                           {"/preprocessing", "none"},
                                                           {"/weights/bytes", "many"}}) {
    nlohmann::json told = nlohmann::json::parse(text);
    told[nlohmann::json::json_pointer(pointer)] = value;
    write_bytes(exported.file("prediction.json"), told.dump());
    INFO(pointer);
    CHECK_THAT(refusal(), Contains("exported model") && Contains("cannot be used"));
  }
}

TEST_CASE("keys that would make another model are refused, those of where and how it runs are taken") {
  const ExportedDigits exported;
  exported.write();
  const std::string run = exported.folder.path("run");
  for (const std::string& path : {exported.to(), run}) {
    const TrainedModel model =
        read_trained_model(path, {"memory.limit=1GiB", "device=cpu", "train.amp=off", "data.workers=2"});
    CHECK(model.experiment.memory.limit == std::int64_t{1} << 30);
    CHECK(model.experiment.train.amp == Amp::off);
    CHECK_THROWS_WITH(read_trained_model(path, {"model.layers.0.conv2d.out=3"}), Contains("model.layers.0.conv2d.out"));
    CHECK_THROWS_AS(read_trained_model(path, {"train.batch_size=3"}), ConfigError);
  }
  CHECK_THROWS_AS(read_trained_model(exported.folder.path("nothing"), {}), DataError);
  CHECK_THROWS_AS(read_trained_model(exported.folder.path(), {}), DataError);
  CHECK(is_override("memory.limit=1GiB"));
  CHECK(!is_override("photos/a=b.png"));
  CHECK(!is_override("A=b"));
  CHECK(!is_override("=x"));
  CHECK(!is_override("a.png"));
}

TEST_CASE("weights that have changed since a checkpoint or an exported model was written are not taken") {
  const ExportedDigits exported;
  exported.write();
  const std::string run = exported.folder.path("run");
  const std::string of_run = initial_weights_file(run);
  const std::string checkpoint = fs::path(of_run).parent_path();
  const std::string copy = exported.folder.path("copy.safetensors");
  fs::copy(of_run, copy);
  for (const std::string& path : {run, checkpoint, of_run, exported.to(), exported.file("model.safetensors"), copy})
    CHECK_NOTHROW(intact_weights(path));

  const auto flip_last_byte = [](const std::string& path) {
    std::string bytes = file_bytes(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_bytes(path, bytes);
  };
  // The optimizer's state is for training alone.
  flip_last_byte(checkpoint + "/optimizer.safetensors");
  CHECK_NOTHROW(intact_weights(run));
  CHECK(read_trained_model(run, {}).weights_file == of_run);
  CHECK_THROWS_WITH(read_checkpoint(checkpoint), Catch::Contains("the contents of optimizer.safetensors"));
  fs::remove(checkpoint + "/optimizer.safetensors");
  CHECK(read_trained_model(checkpoint, {}).weights_file == of_run);
  for (const std::string& path : {of_run, exported.file("model.safetensors"), copy}) flip_last_byte(path);
  for (const std::string& path : {run, checkpoint, of_run, exported.to(), exported.file("model.safetensors")}) {
    INFO(path);
    CHECK_THROWS_WITH(intact_weights(path),
                      Catch::Contains("the contents of model.safetensors have changed since they were written"));
  }
  CHECK_NOTHROW(intact_weights(copy));  // of which nothing is known
  const std::string link = exported.folder.path("link.safetensors");
  fs::create_symlink(of_run, link);
  CHECK_THROWS_AS(intact_weights(link), DataError);

  // A description of something else says nothing of it; one that is damaged does.
  write_bytes(checkpoint + "/state.json", "{\"format\": \"other\"}");
  CHECK_NOTHROW(intact_weights(checkpoint));
  write_bytes(checkpoint + "/state.json", "{\"format\": ");
  CHECK_THROWS_WITH(intact_weights(checkpoint), Catch::Contains("state.json is not JSON"));
  write_bytes(checkpoint + "/state.json", "[1]");
  CHECK_NOTHROW(intact_weights(checkpoint));
}
