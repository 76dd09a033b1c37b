#include "engine/train/files/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/config/text/json_input.h"
#include "engine/half.h"
#include "engine/ops/loss_scale.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/float_tensor.h"
#include "engine/train/files/safetensors.h"
#include "engine/train/files/training_state_json.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view format_name = "trainer-checkpoint";
constexpr const char* optimizer_file = "optimizer.safetensors";
constexpr const char* state_file = "state.json";
constexpr std::size_t max_state_bytes = 256 << 20;

/// Writes the buffers to one file, a piece at a time through `memory`; the description for state.json, or the parameter
/// that is not finite.
Json write_buffers(const std::string& path, std::span<const SavedTensor> buffers, const SavedTensors::Read& read,
                   PieceMemory& memory, std::int32_t& non_finite_parameter) {
  std::vector<NamedTensor> tensors;
  for (const SavedTensor& saved : buffers) tensors.push_back(saved.tensor);
  SafetensorsWriter writer(path, tensors, {{"format", "pt"}});
  for (const SavedTensor& saved : buffers) {
    for (const TensorPiece& piece : tensor_pieces(saved.order, saved.kept)) {
      require_internal(piece.kept.num_bytes() <= memory.num_bytes(), "there is room for the largest piece");
      read(saved, piece, memory.data());
      if (saved.trainable_parameter >= 0 && !all_finite(piece.kept, memory.data())) {
        non_finite_parameter = saved.trainable_parameter;
        return {};
      }
      to_file_order(piece.order, piece.kept, memory.data());
      writer.append(memory.data(), piece.kept.num_bytes());
    }
  }
  writer.finish();
  return {{"bytes", writer.file_bytes()}, {"crc32", fmt::format("{:08x}", writer.checksum())}};
}

std::string checksum_of(std::string_view text) {
  return fmt::format("{:08x}", crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

DataError changed_file(const std::string& path, std::string_view name) {
  return unusable_checkpoint(path, fmt::format("the contents of {} have changed since they were written", name));
}

void check_format(const std::string& path, const Json& state) {
  if (state.value("format", Json()) != format_name)
    throw unusable_checkpoint(path, fmt::format("{} was not written by trainer", state_file));
  const Json version = state.value("format_version", Json());
  if (version == checkpoint_format_version) return;
  throw unusable_checkpoint(path, fmt::format("its format has version {}, this trainer reads version {}",
                                              version.dump(), checkpoint_format_version));
}

/// Compares a file with what state.json says of it.
void verify_file(const std::string& checkpoint, const char* name, const JsonInput<Json>& expected) {
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
  if (fmt::format("{:08x}", checksum) != expected.at("crc32").text()) {
    throw changed_file(checkpoint, name);
  }
}

/// One of a file's tensors, and whether it is SavedTensor::former.
struct FoundTensor {
  std::size_t position = 0;
  bool is_former = false;
};

FoundTensor find_tensor(const SafetensorsFile& file, const SavedTensor& wanted) {
  std::ptrdiff_t position = file.find(wanted.tensor.name);
  const bool is_former = position < 0 && wanted.former;
  if (is_former) position = file.find(wanted.former->name);
  if (position < 0) throw DataError(fmt::format("{} has no tensor '{}'", file.path(), wanted.tensor.name));
  const NamedTensor& found = file.tensors()[static_cast<std::size_t>(position)];
  const TensorType& type = wanted.tensor.type;
  if (!(found.type == type)) {
    throw DataError(fmt::format("{}: tensor '{}' is {}, the model's is {}", file.path(), found.name,
                                found.type.to_string(), type.to_string()));
  }
  return {static_cast<std::size_t>(position), is_former};
}

std::int64_t largest_piece(std::span<const SavedTensor> buffers) {
  std::int64_t largest = 0;
  for (const SavedTensor& saved : buffers) largest = std::max(largest, largest_piece_bytes(saved.order, saved.kept));
  return largest;
}

/// Coded anew, which takes it whole.
void read_former(const SafetensorsFile& file, std::size_t position, const FormerMoment& former, BufferId buffer,
                 Executor& executor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.tensors()[position].type.num_bytes()));
  file.read(position, bytes.data());
  to_device_order(former, bytes.data());
  executor.write(buffer, bytes.data());
}

void read_in_pieces(const SafetensorsFile& file, std::size_t position, const SavedTensor& saved, PieceMemory& memory,
                    Executor& executor) {
  for (const TensorPiece& piece : tensor_pieces(saved.order, saved.kept)) {
    file.read(position, piece.offset, piece.kept.num_bytes(), memory.data());
    to_device_order(piece.order, piece.kept, memory.data());
    executor.write(saved.buffer, piece.offset, piece.kept.num_bytes(), memory.data());
  }
}

/// Finds the buffers in a file that must hold exactly them.
std::vector<FoundTensor> find_buffers(const SafetensorsFile& file, std::span<const SavedTensor> buffers) {
  std::vector<char> used(file.tensors().size(), 0);
  std::vector<FoundTensor> all_found;
  const auto refuse = [&](const std::string& name) {
    throw DataError(fmt::format("{} has a tensor '{}' that the model has not", file.path(), name));
  };
  for (const SavedTensor& saved : buffers) {
    all_found.push_back(find_tensor(file, saved));
    used[all_found.back().position] = 1;
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i] == 0) refuse(file.tensors()[i].name);
  if (!file.foreign().empty()) refuse(file.foreign().front().name);
  return all_found;
}

/// Fills the buffers from where they were found.
void read_buffers(const SafetensorsFile& file, std::span<const SavedTensor> buffers,
                  std::span<const FoundTensor> all_found, Executor& executor) {
  PieceMemory memory(largest_piece(buffers));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto [position, is_former] = all_found[i];
    if (is_former)
      read_former(file, position, *buffers[i].former, buffers[i].buffer, executor);
    else
      read_in_pieces(file, position, buffers[i], memory, executor);
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

/// A folder that is removed unless it was renamed.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

DataError unusable_checkpoint(const std::string& path, std::string_view why) {
  return DataError(fmt::format("checkpoint {} cannot be used: {}", path, why));
}

SavedCheckpoint save_checkpoint(const std::string& directory, const TrainingState& state, const Experiment& experiment,
                                const std::string& trainer_version, const SavedTensors& tensors,
                                PieceMemory& memory) try {
  const std::string name = fmt::format("step-{:08}", state.step);
  make_directories_durably(directory);
  const TemporaryDirectory temporary(fmt::format("{}/.{}.{}.tmp", directory, name, getpid()));
  SavedCheckpoint saved;

  Json json = training_state_json(state);
  json["format"] = format_name;
  json["format_version"] = checkpoint_format_version;
  json["trainer_version"] = trainer_version;
  json["config"] = Json::parse(resolved_json(experiment));
  json["files"][model_file] = write_buffers(fmt::format("{}/{}", temporary.path(), model_file), tensors.model,
                                            tensors.read, memory, saved.non_finite_parameter);
  if (saved.non_finite_parameter >= 0) return saved;
  json["files"][optimizer_file] = write_buffers(fmt::format("{}/{}", temporary.path(), optimizer_file),
                                                tensors.optimizer, tensors.read, memory, saved.non_finite_parameter);
  json["crc32"] = checksum_of(json.dump());
  write_file_durably(fmt::format("{}/{}", temporary.path(), state_file), json.dump(2) + "\n");
  sync_directory(temporary.path());

  saved.path = fmt::format("{}/{}", directory, name);
  replace_durably(temporary.path(), saved.path);
  return saved;
} catch (const fs::filesystem_error& error) {
  throw DataError(fmt::format("cannot write a checkpoint under {}: {}", directory, error.code().message()));
}

Checkpoint read_checkpoint(const std::string& path) {
  const std::string state_path = fmt::format("{}/{}", path, state_file);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) throw unusable_checkpoint(path, "there is no such folder");
  if (!fs::exists(state_path, ignored)) throw unusable_checkpoint(path, fmt::format("{} is missing", state_file));
  std::optional<Json> json = parse_json<Json>(read_text_file(state_path, max_state_bytes));
  if (!json || !json->is_object()) throw unusable_checkpoint(path, fmt::format("{} is not a JSON object", state_file));
  check_format(path, *json);
  try {
    const JsonInput<Json> state(*json);
    const std::string stated = state.at("crc32").text();
    json->erase("crc32");
    if (checksum_of(json->dump()) != stated) throw changed_file(path, state_file);
    for (const char* name : {model_file, optimizer_file}) verify_file(path, name, state.at("files").at(name));
    return {path, read_training_state(state), state.at("config").object().dump()};
  } catch (const JsonMistake& mistake) {
    throw unusable_checkpoint(path, fmt::format("{}: {}", state_file, mistake.what()));
  }
}

void restore_checkpoint(const Checkpoint& checkpoint, Executor& executor) {
  const auto restore = [&](const char* name, std::span<const SavedTensor> buffers) {
    const SafetensorsFile file(fmt::format("{}/{}", checkpoint.path, name));
    read_buffers(file, buffers, find_buffers(file, buffers), executor);
  };
  restore(model_file, model_tensors(executor.program()));
  restore(optimizer_file, optimizer_tensors(executor.program()));
  check_loss_scale(checkpoint, executor);
}

}  // namespace trainer
