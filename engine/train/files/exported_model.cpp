#include "engine/train/files/exported_model.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "datasets/tokens/tokenized_text.h"
#include "engine/config/load_experiment.h"
#include "engine/config/text/json_input.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/exported_format.h"
#include "engine/train/files/preprocessing_json.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using ExportJson = nlohmann::ordered_json;

/// Keys of data that say how a file becomes a sample.
bool is_of_samples(std::string_view key, DataType type) {
  constexpr std::array<std::string_view, 18> wanted = {"data.type",
                                                       "data.channels",
                                                       "data.class_names",
                                                       "data.max_pixels",
                                                       "data.reduced_decoding",
                                                       "data.normalize.mean",
                                                       "data.normalize.std",
                                                       "data.transforms.validation",
                                                       "data.layout",
                                                       "data.fields.input",
                                                       "data.target_type",
                                                       "data.header",
                                                       "data.delimiter",
                                                       "data.missing_values",
                                                       "data.sequence_length",
                                                       "data.tokenizer",
                                                       "data.document_token",
                                                       "data.pad_token"};
  constexpr std::array<std::string_view, 4> of_synthetic = {"data.shape", "data.classes", "data.samples",
                                                            "data.target_shape"};
  if (type == DataType::synthetic && std::ranges::find(of_synthetic, key) != of_synthetic.end()) return true;
  return std::ranges::find(wanted, key) != wanted.end() || key == "data.train" || key == "data.root";
}

/// With words where the format asks for paths, which no prediction reads.
void forget_paths(DataConfig& data) {
  constexpr const char* no_file = "none";
  data.root.clear();
  data.train.clear();
  switch (data.type) {
    case DataType::cifar10:
    case DataType::idx:
    case DataType::segmentation:
      data.root = no_file;
      break;
    case DataType::csv:
    case DataType::arrays:
    case DataType::tar:
    case DataType::image_list:
    case DataType::tokens:
    case DataType::text:
      data.train = no_file;
      break;
    case DataType::digits:
    case DataType::synthetic:
    case DataType::image_folder:
      break;
  }
}

std::string config_of(const ModelToWrite& model) {
  Experiment kept = model.experiment;
  forget_paths(kept.data);
  if (!model.tokenizer_files.empty()) kept.data.tokenizer = exported_tokenizer;
  // Of a sum the term that says what outputs are: Note [What outputs say] in engine/train/prediction_outputs.h.
  LossConfig loss;
  loss.type = LossType::l1;
  for (const LossConfig& term : model.experiment.losses) {
    if (term.type == LossType::feature) continue;
    loss.type = term.type;
    break;
  }
  kept.losses = {loss};
  const std::string yaml = resolved_yaml(kept, [&](std::string_view key) {
    return key == "name" || key == "seed" || key == "loss.type" || key == "model" || key.starts_with("model.") ||
           is_of_samples(key, kept.data.type);
  });
  const bool has_words = !kept.data.root.empty() || !kept.data.train.empty();
  return fmt::format("# A model as `trainer export --to` writes it, for `trainer predict`; {} has the rest.\n{}{}",
                     prediction_file, has_words ? "# A path that is none stands where the format asks for one.\n" : "",
                     yaml);
}

std::string_view name_of_amp(Amp amp) { return amp == Amp::fp16 ? "fp16" : amp == Amp::bf16 ? "bf16" : "off"; }

ExportJson inputs_json(const DataDescription& data) {
  ExportJson inputs = ExportJson::array();
  for (const InputDescription& input : data.inputs)
    inputs.push_back({{"name", input.name},
                      {"type", name_of(input.type.dtype)},
                      {"shape", std::vector<std::int64_t>(input.type.shape.begin(), input.type.shape.end())},
                      {"mean", input.mean},
                      {"std", input.std},
                      {"indices", input.num_indices}});
  return inputs;
}

constexpr const char* whole_tokenizer_file = "tokenizer.json";

/// A folder that is removed unless it was moved away.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(const std::string& place) {
    const fs::path path(place);
    path_ = (path.parent_path() / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid())).string();
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    make_directories_durably(path_);
  }
  ~UnfinishedFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  std::string path_;
};

}  // namespace

std::vector<TokenizerFile> tokenizer_files_of(const DataConfig& config) {
  if (config.type != DataType::text) return {};
  const std::string named = tokenizer_name(config);
  if (named == "bytes") return {};
  std::error_code ignored;
  const fs::path path(named);
  const fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
  const bool is_file = !fs::is_directory(path, ignored);
  const bool has_whole = is_file ? path.filename() != "vocab.json" : fs::exists(path / whole_tokenizer_file, ignored);
  if (has_whole) return {{is_file ? path.string() : (path / whole_tokenizer_file).string(), whole_tokenizer_file}};
  std::vector<TokenizerFile> files;
  for (const char* name : {"vocab.json", "merges.txt"}) files.push_back({(folder / name).string(), name});
  return files;
}

FileSum sum_of_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw DataError(fmt::format("cannot read '{}'", path));
  std::vector<unsigned char> piece(1 << 20);
  uLong crc = 0;
  FileSum sum;
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), file.get())) {
    crc = crc32_z(crc, piece.data(), count);
    sum.num_bytes += static_cast<std::int64_t>(count);
  }
  if (std::ferror(file.get()) != 0) throw DataError(fmt::format("cannot read '{}'", path));
  sum.crc32 = fmt::format("{:08x}", crc);
  return sum;
}

bool is_exported_model(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, prediction_file);
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  try {
    const std::optional<ExportJson> json = parse_json<ExportJson>(read_text_file(path, most_prediction_file_bytes));
    return json && json->is_object() && json->contains("format") && (*json)["format"] == exported_format_name;
  } catch (const DataError&) {
    return false;
  }
}

void check_export_place(const std::string& folder, bool overwrite) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(folder, ignored))) return;
  if (!is_exported_model(folder))
    throw DataError(
        fmt::format("'{}' exists and is no exported model, so it is not replaced; name another folder", folder));
  if (!overwrite)
    throw DataError(fmt::format("'{}' exists; name another folder, or replace it with --overwrite", folder));
}

ExportedWeights write_exported_model(const ModelToWrite& model, const std::string& folder) try {
  const std::string place = (fs::path(folder) / "").parent_path().string();  // without a '/' at its end
  const fs::path parent = fs::path(place).parent_path();
  if (!parent.empty()) make_directories_durably(parent.string());
  const UnfinishedFolder unfinished(place);
  ExportedWeights written = export_weights(model.match, model.files, nullptr, model.type, unfinished / model_file);
  write_file_durably(unfinished / config_file, config_of(model));
  for (const TokenizerFile& file : model.tokenizer_files)
    write_file_durably(unfinished / file.name, read_text_file(file.path, most_exported_file_bytes));
  const FileSum sum = sum_of_file(unfinished / model_file);
  const ExportJson json{{"format", exported_format_name},
                        {"format_version", exported_format_version},
                        {"trainer_version", model.trainer_version},
                        {"amp", name_of_amp(model.experiment.train.amp)},
                        {"inputs", inputs_json(model.data)},
                        {"preprocessing", preprocessing_json<ExportJson>(model.preprocessing)},
                        {"weights", {{"bytes", sum.num_bytes}, {"crc32", sum.crc32}}}};
  write_file_durably(unfinished / prediction_file, json.dump(2) + "\n");
  sync_directory(unfinished.path());
  replace_durably(unfinished.path(), place);
  return written;
} catch (const fs::filesystem_error& error) {
  throw DataError(fmt::format("cannot write '{}': {}", folder, error.code().message()));
}

}  // namespace trainer
