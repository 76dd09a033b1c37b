#include "engine/train/files/checkpoint_writing.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/config/load_experiment.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/float_tensor.h"
#include "engine/train/files/training_state_json.h"

namespace trainer {

std::uint32_t checksum_of_text(std::string_view text) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

std::string checksum_text(std::uint32_t checksum) { return fmt::format("{:08x}", checksum); }

TemporaryDirectory::TemporaryDirectory(std::string path) : path_(std::move(path)) {
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string path_of_checkpoint(const std::string& directory, std::int64_t step) {
  return fmt::format("{}/step-{:08}", directory, step);
}

std::string unfinished_path(const std::string& directory, std::int64_t step) {
  return fmt::format("{}/.step-{:08}.{}.tmp", directory, step, getpid());
}

bool may_be_saved(const SavedTensor& saved, const TensorPiece& piece, const std::byte* bytes) {
  return saved.trainable_parameter < 0 || all_finite(piece.kept, bytes);
}

void write_description(const std::string& folder, int version, const TrainingState& state, const Experiment& experiment,
                       const std::string& trainer_version, std::span<const CheckpointFile> files) {
  nlohmann::json json = training_state_json(state);
  json["format"] = checkpoint_format_name;
  json["format_version"] = version;
  json["trainer_version"] = trainer_version;
  json["config"] = nlohmann::json::parse(resolved_json(experiment));
  for (const CheckpointFile& file : files)
    json["files"][file.name] = {{"bytes", file.num_bytes}, {"crc32", checksum_text(file.crc32)}};
  json["crc32"] = checksum_text(checksum_of_text(json.dump()));
  write_file_durably(fmt::format("{}/{}", folder, state_file), json.dump(2) + "\n");
  sync_directory(folder);
}

}  // namespace trainer
