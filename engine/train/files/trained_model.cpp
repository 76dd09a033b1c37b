#include "engine/train/files/trained_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "datasets/dataset_description.h"
#include "datasets/prediction/input_description.h"
#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"
#include "engine/config/text/json_input.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/exported_format.h"
#include "engine/train/files/exported_model.h"
#include "engine/train/files/initial_weights.h"
#include "engine/train/files/preprocessing_json.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using ModelJson = nlohmann::json;

/// Keys that leave a trained model, and what it makes of a file, as they are, but for rounding, and for how many tokens
/// of a text are seen at once.
bool may_be_overridden(std::string_view key) {
  constexpr std::array<std::string_view, 9> keys = {"device",      "memory",          "data.workers",
                                                    "train.amp",   "data.max_pixels", "data.reduced_decoding",
                                                    "data.header", "data.delimiter",  "data.sequence_length"};
  return std::ranges::any_of(
      keys, [&](std::string_view each) { return key == each || (key.starts_with(each) && key[each.size()] == '.'); });
}

void check_overrides(const std::vector<std::string>& overrides) {
  for (const std::string& word : overrides) {
    const std::string_view key = std::string_view(word).substr(0, word.find('='));
    if (!may_be_overridden(key))
      throw ConfigError(fmt::format(
          "'{}' is a key of training, or would make another model of it; a trained one takes device, memory.*, "
          "data.workers, data.max_pixels, data.reduced_decoding, data.header, data.delimiter, data.sequence_length and "
          "train.amp",
          key));
  }
}

DataError unusable_export(const std::string& path, std::string_view why) {
  return DataError(fmt::format("exported model {} cannot be used: {}", path, why));
}

DType dtype_named(const std::string& name) {
  for (const DType type : {DType::f32, DType::u8, DType::i32})
    if (name_of(type) == name) return type;
  throw JsonMistake(fmt::format("'type' is '{}', which no model takes", name));
}

std::vector<float> read_floats(const JsonInput<ModelJson>& json, float least) {
  std::vector<float> numbers;
  for (const auto& each : json.items()) {
    const double number = each.number(-1e30, 1e30);
    if (number < static_cast<double>(least)) throw JsonMistake("a standard deviation is not above 0");
    numbers.push_back(static_cast<float>(number));
  }
  return numbers;
}

InputDescription read_input(const JsonInput<ModelJson>& json) {
  constexpr std::int64_t largest_side = std::int64_t{1} << 30, most_elements = std::int64_t{1} << 30;
  InputDescription input;
  input.name = json.at("name").text();
  input.type.dtype = dtype_named(json.at("type").text());
  std::vector<std::int64_t> dims;
  std::int64_t count = 1;
  for (const auto& each : json.at("shape").items()) {
    dims.push_back(each.integer(1, largest_side));
    if (dims.back() > most_elements / count) throw JsonMistake("'shape' is of more numbers than a sample has");
    count *= dims.back();
  }
  constexpr std::size_t most_dims = 4;
  if (dims.size() > most_dims) throw JsonMistake("'shape' has too many dimensions");
  input.type.shape = Shape(dims);
  constexpr float least_deviation = 1e-30F;
  input.mean = read_floats(json.at("mean"), -1e30F);
  input.std = read_floats(json.at("std"), least_deviation);
  const bool is_image = input.type.dtype == DType::u8;
  const std::size_t wanted = is_image && dims.size() == 3 ? static_cast<std::size_t>(dims[2]) : 0;
  if ((is_image && dims.size() != 3) || input.mean.size() != wanted || input.std.size() != wanted)
    throw JsonMistake("'mean' and 'std' are not one for each channel of an image");
  input.num_indices = json.at("indices").integer();
  return input;
}

/// prediction.json, whose weights are those that it was written with.
ModelJson read_prediction_file(const std::string& path) {
  const std::string file = fmt::format("{}/{}", path, prediction_file);
  std::optional<ModelJson> json = parse_json<ModelJson>(read_text_file(file, most_prediction_file_bytes));
  if (!json || !json->is_object()) throw unusable_export(path, fmt::format("{} is no JSON object", prediction_file));
  const JsonInput<ModelJson> input(*json);
  if (const std::int64_t version = input.at("format_version").integer(); version != exported_format_version)
    throw unusable_export(path, fmt::format("its format has version {}, this trainer reads version {}", version,
                                            exported_format_version));
  const FileSum sum = sum_of_file(fmt::format("{}/{}", path, model_file));
  if (sum.num_bytes != input.at("weights").at("bytes").integer() || sum.crc32 != input.at("weights").at("crc32").text())
    throw unusable_export(path, fmt::format("the contents of {} have changed since they were written", model_file));
  return *std::move(json);
}

DataError mistaken_prediction_file(const std::string& path, const JsonMistake& mistake) {
  return unusable_export(path, fmt::format("{}: {}", prediction_file, mistake.what()));
}

TrainedModel read_export(const std::string& path, const std::vector<std::string>& overrides) try {
  const ModelJson json = read_prediction_file(path);
  const JsonInput<ModelJson> input(json);
  TrainedModel model;
  model.path = path;
  model.weights_file = fmt::format("{}/{}", path, model_file);
  const std::string config = fmt::format("{}/{}", path, config_file);
  // Behind what is asked for, the precision that evaluations had.
  const std::string& amp = input.at("amp").text();
  if (amp != "off" && amp != "fp16" && amp != "bf16") throw JsonMistake("'amp' is not off, fp16 or bf16");
  std::vector<std::string> all = {fmt::format("train.amp={}", amp)};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const bool sets_amp =
      std::ranges::any_of(overrides, [](const std::string& word) { return word.starts_with("train.amp="); });
  model.experiment = load_experiment(config, sets_amp ? overrides : all);
  DataConfig& data = model.experiment.data;
  if (data.type == DataType::text && data.tokenizer != "bytes") data.tokenizer = fs::absolute(path).string();
  model.preprocessing = read_preprocessing(input.at("preprocessing"));
  for (const auto& each : input.at("inputs").items()) model.data.inputs.push_back(read_input(each));
  if (model.data.inputs.size() != 1) throw unusable_export(path, "it takes another number of inputs than one");
  if (!holds_tokens(data)) return model;
  InputDescription& tokens = model.data.inputs.front();
  if (tokens.type.dtype != DType::i32 || tokens.num_indices < 1)
    throw unusable_export(path, "its data is of tokens, and it takes something else");
  tokens.type.shape = Shape{data.sequence_length};
  return model;
} catch (const JsonMistake& mistake) {
  throw mistaken_prediction_file(path, mistake);
}

TrainedModel read_run(const std::string& path, const std::vector<std::string>& overrides) {
  TrainedModel model;
  model.path = path;
  model.weights_file = initial_weights_file(path);
  const std::string folder = fs::path(model.weights_file).parent_path().string();
  const Checkpoint checkpoint = read_model_of_checkpoint(folder);
  model.experiment = parse_experiment(checkpoint.given_config(), folder, overrides);
  leave_ranks(model.experiment);
  model.preprocessing = checkpoint.state.preprocessing;
  model.data = describe_inputs(model.experiment.data, model.experiment.seed, model.preprocessing);
  return model;
}

}  // namespace

bool is_override(const std::string& word) {
  const std::size_t end = word.find('=');
  if (end == std::string::npos || end == 0) return false;
  const std::string_view key = std::string_view(word).substr(0, end);
  const auto is_of_key = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  if (!std::all_of(key.begin(), key.end(), is_of_key)) return false;
  std::error_code ignored;
  return !fs::exists(word, ignored);
}

void verify_exported_weights(const std::string& folder) try {
  read_prediction_file(folder);
} catch (const JsonMistake& mistake) {
  throw mistaken_prediction_file(folder, mistake);
}

TrainedModel read_trained_model(const std::string& path, const std::vector<std::string>& overrides) {
  check_overrides(overrides);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    throw DataError(fmt::format("'{}' is no folder; give that of an exported model, a run or a checkpoint", path));
  TrainedModel model = is_exported_model(path) ? read_export(path, overrides) : read_run(path, overrides);
  model.experiment.weights = {};  // what it began with is not what it learned
  count_input_readers(model.experiment.data, model.data);
  return model;
}

}  // namespace trainer
