#include "engine/train/files/checkpoint.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "engine/config/text/json_input.h"
#include "engine/ops/loss_scale.h"
#include "engine/program/held_parts.h"
#include "engine/train/agreement.h"
#include "engine/train/files/checkpoint_writing.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/safetensors.h"
#include "engine/train/files/safetensors_index.h"
#include "engine/train/files/training_state_json.h"
#include "engine/train/files/weight_files.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* optimizer_file = "optimizer.safetensors";
constexpr std::size_t max_state_bytes = 256 << 20;

/// Writes the buffers to one file, a piece at a time through `memory`; nothing where a parameter is not finite, which
/// is then told.
std::optional<CheckpointFile> write_buffers(const std::string& folder, const char* name,
                                            std::span<const SavedTensor> buffers, const SavedTensors::Read& read,
                                            PieceMemory& memory, std::int32_t& non_finite_parameter) {
  std::vector<NamedTensor> tensors;
  for (const SavedTensor& saved : buffers) tensors.push_back(saved.tensor);
  SafetensorsWriter writer(fmt::format("{}/{}", folder, name), tensors, {{"format", "pt"}});
  for (const SavedTensor& saved : buffers) {
    for (const TensorPiece& piece : tensor_pieces(saved.order, saved.kept)) {
      require_internal(piece.kept.num_bytes() <= memory.num_bytes(), "there is room for the largest piece");
      read(saved, piece, memory.data());
      if (!may_be_saved(saved, piece, memory.data())) {
        non_finite_parameter = saved.trainable_parameter;
        return std::nullopt;
      }
      to_file_order(piece.order, piece.kept, memory.data());
      writer.append(memory.data(), piece.kept.num_bytes());
    }
  }
  writer.finish();
  return CheckpointFile{name, writer.file_bytes(), writer.checksum()};
}

DataError changed_file(const std::string& path, std::string_view name) {
  return unusable_checkpoint(path, fmt::format("the contents of {} have changed since they were written", name));
}

/// The version of the format.
int check_format(const std::string& path, const Json& state) {
  if (state.value("format", Json()) != checkpoint_format_name)
    throw unusable_checkpoint(path, fmt::format("{} was not written by trainer", state_file));
  const Json version = state.value("format_version", Json());
  for (const int known : {whole_checkpoint_version, sharded_checkpoint_version})
    if (version == known) return known;
  throw unusable_checkpoint(path, fmt::format("its format has version {}, this trainer reads versions {} and {}",
                                              version.dump(), whole_checkpoint_version, sharded_checkpoint_version));
}

/// Compares a file with what state.json says of it.
void verify_file(const std::string& checkpoint, const std::string& name, const JsonInput<Json>& expected) {
  const std::string path = fmt::format("{}/{}", checkpoint, name);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw unusable_checkpoint(checkpoint, fmt::format("{} is missing", name));
  std::vector<unsigned char> buffer(1 << 20);
  uLong checksum = 0;
  std::uint64_t num_bytes = 0;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    checksum = crc32_z(checksum, buffer.data(), count);
    num_bytes += count;
  }
  const auto expected_bytes = static_cast<std::uint64_t>(expected.at("bytes").integer());
  if (num_bytes != expected_bytes) {
    throw unusable_checkpoint(checkpoint,
                              fmt::format("{} has {} bytes where {} were written", name, num_bytes, expected_bytes));
  }
  if (checksum_text(static_cast<std::uint32_t>(checksum)) != expected.at("crc32").text()) {
    throw changed_file(checkpoint, name);
  }
}

/// The files of a list of tensors, and where those of one begin.
struct ListOfTensors {
  std::string path;                ///< of the file, or of the index
  std::vector<std::string> files;  ///< names: of the file, or of the index and all that it names
};

/// Of a checkpoint of that version, whose index, where it has one, is verified.
ListOfTensors find_list(const std::string& checkpoint, const char* file, int version,
                        const JsonInput<Json>& described) {
  const std::string index = fmt::format("{}.index.json", file);
  if (version == whole_checkpoint_version || described.find(file))
    return {fmt::format("{}/{}", checkpoint, file), {file}};
  // Readers of a model take that before an index.
  if (std::error_code ignored; fs::exists(fmt::format("{}/{}", checkpoint, file), ignored))
    throw unusable_checkpoint(checkpoint, fmt::format("{} is not of it: its tensors are in shards", file));
  ListOfTensors list{fmt::format("{}/{}", checkpoint, index), {index}};
  verify_file(checkpoint, index, described.at(index));
  const SafetensorsIndex shards = read_safetensors_index(list.path);
  list.files.insert(list.files.end(), shards.shards.begin(), shards.shards.end());
  return list;
}

/// One of the tensors, and whether it is SavedTensor::former.
struct FoundTensor {
  const WeightTensor* tensor = nullptr;
  bool is_former = false;
};

using TensorsByName = std::map<std::string_view, const WeightTensor*>;

FoundTensor find_tensor(const WeightFiles& files, const TensorsByName& by_name, const SavedTensor& wanted) {
  auto place = by_name.find(wanted.tensor.name);
  const bool is_former = place == by_name.end() && wanted.former;
  if (is_former) place = by_name.find(wanted.former->name);
  if (place == by_name.end()) throw DataError(fmt::format("{} has no tensor '{}'", files.path(), wanted.tensor.name));
  const WeightTensor& found = *place->second;
  const TensorType& type = wanted.tensor.type;
  if (found.is_foreign || !(found.type == type)) {
    throw DataError(fmt::format(
        "{}: tensor '{}' is {}, the model's is {}", files.files()[found.file].path(), found.name,
        found.is_foreign ? fmt::format("{} {}", found.dtype, found.type.shape.to_string()) : found.type.to_string(),
        type.to_string()));
  }
  return {&found, is_former};
}

std::int64_t largest_piece(std::span<const SavedTensor> buffers) {
  std::int64_t largest = 0;
  for (const SavedTensor& saved : buffers) largest = std::max(largest, largest_piece_bytes(saved.order, saved.kept));
  return largest;
}

/// Coded anew, which takes it whole.
void read_former(const WeightFiles& files, const WeightTensor& tensor, const FormerMoment& former, BufferId buffer,
                 Executor& executor) {
  const std::int64_t num_bytes = tensor.type.num_bytes();
  std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes));
  files.read(tensor, 0, num_bytes, bytes.data());
  to_device_order(former, bytes.data());
  executor.write(buffer, bytes.data());
}

/// Whether this rank has any of it.
bool holds(const Program& program, BufferId buffer, std::int64_t offset, std::int64_t num_bytes) {
  const std::optional<TensorPart>& part = program.buffers[buffer].part;
  return !part || !held_of(*part, program.ranks, offset, num_bytes).empty();
}

void read_in_pieces(const WeightFiles& files, const WeightTensor& tensor, const SavedTensor& saved, PieceMemory& memory,
                    Executor& executor) {
  for (const TensorPiece& piece : tensor_pieces(saved.order, saved.kept)) {
    const std::int64_t num_bytes = piece.kept.num_bytes();
    if (!holds(executor.program(), saved.buffer, piece.offset, num_bytes)) continue;
    files.read(tensor, piece.offset, num_bytes, memory.data());
    to_device_order(piece.order, piece.kept, memory.data());
    executor.write(saved.buffer, piece.offset, num_bytes, memory.data());
  }
}

/// Finds the buffers in files that must hold exactly them.
std::vector<FoundTensor> find_buffers(const WeightFiles& files, std::span<const SavedTensor> buffers) {
  TensorsByName by_name;
  for (const WeightTensor& tensor : files.tensors()) by_name.emplace(tensor.name, &tensor);
  std::set<const WeightTensor*> used;
  std::vector<FoundTensor> all_found;
  for (const SavedTensor& saved : buffers) {
    all_found.push_back(find_tensor(files, by_name, saved));
    used.insert(all_found.back().tensor);
  }
  for (const WeightTensor& tensor : files.tensors())
    if (!used.contains(&tensor))
      throw DataError(
          fmt::format("{} has a tensor '{}' that the model has not", files.files()[tensor.file].path(), tensor.name));
  return all_found;
}

/// Fills the buffers from where they were found.
void read_buffers(const WeightFiles& files, std::span<const SavedTensor> buffers,
                  std::span<const FoundTensor> all_found, Executor& executor) {
  PieceMemory memory(largest_piece(buffers));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto [tensor, is_former] = all_found[i];
    if (is_former)
      read_former(files, *tensor, *buffers[i].former, buffers[i].buffer, executor);
    else
      read_in_pieces(files, *tensor, buffers[i], memory, executor);
  }
}

/// Of what was restored.
void check_loss_scale(const Checkpoint& checkpoint, Executor& executor) {
  const BufferId buffer = executor.program().loss_scale;
  if (buffer < 0) return;
  LossScaleState scale{};
  executor.read(buffer, scale.data());
  const auto is_count = [](double value, double most) {
    return value >= 0 && value <= most && value == std::floor(value);
  };
  const bool holds = std::isfinite(scale[loss_scale_factor]) && scale[loss_scale_factor] > 0 &&
                     is_count(scale[loss_scale_tracker], static_cast<double>(checkpoint.state.step)) &&
                     is_count(scale[loss_scale_skipped], static_cast<double>(checkpoint.state.step));
  if (!holds) {
    throw unusable_checkpoint(checkpoint.path,
                              fmt::format("{} has no loss scale of {} steps: factor {}, good steps {}, skipped {}",
                                          optimizer_file, checkpoint.state.step, scale[loss_scale_factor],
                                          scale[loss_scale_tracker], scale[loss_scale_skipped]));
  }
}

/// Where each rank of `size` checks every size-th file.
struct FileShare {
  std::size_t rank = 0, size = 1;
};

/// state.json, whole.
struct Description {
  int version = 0;
  Json state;
};

/// Any JSON.
std::optional<Json> parse_state_file(const std::string& path) {
  return parse_json<Json>(read_text_file(fmt::format("{}/{}", path, state_file), max_state_bytes));
}

Json read_state_file(const std::string& path) {
  std::optional<Json> json = parse_state_file(path);
  if (!json || !json->is_object()) throw unusable_checkpoint(path, fmt::format("{} is not a JSON object", state_file));
  return *std::move(json);
}

bool has_state_file(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fmt::format("{}/{}", path, state_file), ignored);
}

Description read_description(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) throw unusable_checkpoint(path, "there is no such folder");
  if (!has_state_file(path)) throw unusable_checkpoint(path, fmt::format("{} is missing", state_file));
  Json json = read_state_file(path);
  const int version = check_format(path, json);
  const std::string stated = JsonInput<Json>(json).at("crc32").text();
  json.erase("crc32");
  if (checksum_text(checksum_of_text(json.dump())) != stated) throw changed_file(path, state_file);
  return {version, std::move(json)};
}

DataError mistaken_state(const std::string& path, const JsonMistake& mistake) {
  return unusable_checkpoint(path, fmt::format("{}: {}", state_file, mistake.what()));
}

/// A file, or an index of files, and where its path goes.
struct TensorsOfCheckpoint {
  const char* file;
  std::string Checkpoint::*place;
};

constexpr TensorsOfCheckpoint model_part{model_file, &Checkpoint::model};
constexpr TensorsOfCheckpoint optimizer_part{optimizer_file, &Checkpoint::optimizer};

Checkpoint read_share(const std::string& path, FileShare share, std::initializer_list<TensorsOfCheckpoint> parts) try {
  const Description description = read_description(path);
  const JsonInput<Json> state(description.state);
  Checkpoint checkpoint{path, read_training_state(state), state.at("config").object().dump()};
  const JsonInput<Json> described = state.at("files");
  std::size_t num_files = 0;
  for (const TensorsOfCheckpoint& part : parts) {
    const ListOfTensors list = find_list(path, part.file, description.version, described);
    checkpoint.*part.place = list.path;
    for (const std::string& name : list.files)
      if (num_files++ % share.size == share.rank) verify_file(path, name, described.at(name));
  }
  return checkpoint;
} catch (const JsonMistake& mistake) {
  throw mistaken_state(path, mistake);
}

}  // namespace

DataError unusable_checkpoint(const std::string& path, std::string_view why) {
  return DataError(fmt::format("checkpoint {} cannot be used: {}", path, why));
}

SavedCheckpoint save_checkpoint(const std::string& directory, const TrainingState& state, const Experiment& experiment,
                                const std::string& trainer_version, const SavedTensors& tensors,
                                PieceMemory& memory) try {
  make_directories_durably(directory);
  const TemporaryDirectory temporary(unfinished_path(directory, state.step));
  SavedCheckpoint saved;
  std::vector<CheckpointFile> files;
  for (const auto& [name, buffers] :
       {std::pair{model_file, &tensors.model}, std::pair{optimizer_file, &tensors.optimizer}}) {
    std::optional<CheckpointFile> written =
        write_buffers(temporary.path(), name, *buffers, tensors.read, memory, saved.non_finite_parameter);
    if (!written) return saved;
    files.push_back(*std::move(written));
  }
  write_description(temporary.path(), whole_checkpoint_version, state, experiment, trainer_version, files);
  saved.path = path_of_checkpoint(directory, state.step);
  replace_durably(temporary.path(), saved.path);
  return saved;
} catch (const fs::filesystem_error& error) {
  throw DataError(fmt::format("cannot write a checkpoint under {}: {}", directory, error.code().message()));
}

Checkpoint read_checkpoint(const std::string& path, Communicator* ranks) {
  const auto parts = {model_part, optimizer_part};
  if (ranks == nullptr) return read_share(path, {}, parts);
  std::optional<Checkpoint> checkpoint;
  std::string failure;
  try {
    const FileShare share{static_cast<std::size_t>(ranks->rank()), static_cast<std::size_t>(ranks->size())};
    checkpoint = read_share(path, share, parts);
  } catch (const DataError& error) {
    failure = error.what();
  }
  fail_together(ranks, failure);
  return *std::move(checkpoint);
}

Checkpoint read_model_of_checkpoint(const std::string& path) { return read_share(path, {}, {model_part}); }

bool is_checkpoint(const std::string& folder) {
  if (!has_state_file(folder)) return false;
  const std::optional<Json> json = parse_state_file(folder);
  if (!json) throw unusable_checkpoint(folder, fmt::format("{} is not JSON", state_file));
  return json->is_object() && json->value("format", Json()) == checkpoint_format_name;
}

void restore_checkpoint(const Checkpoint& checkpoint, Executor& executor) {
  const auto restore = [&](const std::string& path, std::span<const SavedTensor> buffers) {
    const WeightFiles files(path);
    read_buffers(files, buffers, find_buffers(files, buffers), executor);
  };
  restore(checkpoint.model, model_tensors(executor.program()));
  restore(checkpoint.optimizer, optimizer_tensors(executor.program()));
  check_loss_scale(checkpoint, executor);
}

}  // namespace trainer
