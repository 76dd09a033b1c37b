#include "engine/train/files/initial_weights.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/errors.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/files/safetensors_index.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

bool holds_model(const fs::path& checkpoint) {
  std::error_code ignored;
  return fs::exists(checkpoint / model_file, ignored);
}

bool holds_index(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / index_file, ignored);
}

/// What the link `best` points at, under its own name; the link itself where it is none.
fs::path best_checkpoint(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? link : link.parent_path() / target;
}

}  // namespace

std::string initial_weights_file(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const fs::path folder = (fs::path(path) / "").parent_path();
  if (holds_model(folder)) return folder / model_file;
  if (holds_index(folder)) return folder / index_file;
  const RunDirectory run(folder);
  const fs::path best = best_checkpoint(fs::path(run.checkpoints_path()) / "best");
  if (holds_model(best)) return best / model_file;
  const std::vector<std::int64_t> steps = run.checkpoint_steps();
  if (!steps.empty()) return fs::path(run.checkpoint_path(steps.back())) / model_file;
  throw DataError(
      fmt::format("{} holds no weights: neither {}, as the folder of a checkpoint does, nor {}, nor checkpoints/, as "
                  "that of a run does; name one of them or a safetensors file",
                  path, model_file, index_file));
}

}  // namespace trainer
