#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/config/experiment.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/safetensors.h"
#include "engine/train/files/saved_tensors.h"

// What checkpoints are written with, whoever writes them: Note [Checkpoints] in checkpoint.h.

namespace trainer {

/// Format versions, of which the second has shards.
inline constexpr int whole_checkpoint_version = 1;
inline constexpr int sharded_checkpoint_version = 2;
inline constexpr std::string_view checkpoint_format_name = "trainer-checkpoint";
inline constexpr const char* state_file = "state.json";

/// CRC-32, as state.json has it.
std::uint32_t checksum_of_text(std::string_view text);
std::string checksum_text(std::uint32_t checksum);

/// A file beside state.json, which tells of it.
struct CheckpointFile {
  std::string name;
  std::uint64_t num_bytes = 0;
  std::uint32_t crc32 = 0;
};

/// A folder that is new, and removed unless it was renamed.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string path);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// "<directory>/step-00000123", and where it is made.
std::string path_of_checkpoint(const std::string& directory, std::int64_t step);
std::string unfinished_path(const std::string& directory, std::int64_t step);

/// Whether a piece, as on the device, may be saved: parameters that are trained must be finite.
bool may_be_saved(const SavedTensor& saved, const TensorPiece& piece, const std::byte* bytes);

/// Writes state.json, which tells of these files, and flushes the folder: from here on it only waits for its name.
/// `version`: of the format.
void write_description(const std::string& folder, int version, const TrainingState& state, const Experiment& experiment,
                       const std::string& trainer_version, std::span<const CheckpointFile> files);

}  // namespace trainer
