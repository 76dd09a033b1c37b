#include "engine/train/files/initial_weights.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "engine/errors.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/files/safetensors_index.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The model in a folder, or the index of its shards; nothing where there is neither.
std::optional<fs::path> model_in(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {model_file, index_file})
    if (fs::exists(folder / name, ignored)) return folder / name;
  return std::nullopt;
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
  if (const auto model = model_in(folder)) return *model;
  const RunDirectory run(folder);
  if (const auto best = model_in(best_checkpoint(fs::path(run.checkpoints_path()) / "best"))) return *best;
  if (const std::vector<std::int64_t> steps = run.checkpoint_steps(); !steps.empty()) {
    const fs::path newest = run.checkpoint_path(steps.back());
    return model_in(newest).value_or(newest / model_file);
  }
  throw DataError(
      fmt::format("{} holds no weights: neither {}, as the folder of a checkpoint does, nor {}, nor checkpoints/, as "
                  "that of a run does; name one of them or a safetensors file",
                  path, model_file, index_file));
}

bool holds_weights(const std::string& folder) { return model_in(folder).has_value(); }

}  // namespace trainer
