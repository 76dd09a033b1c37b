#include "engine/train/files/intact_weights.h"

#include <filesystem>

#include "engine/train/files/checkpoint.h"
#include "engine/train/files/exported_model.h"
#include "engine/train/files/initial_weights.h"
#include "engine/train/files/safetensors_index.h"
#include "engine/train/files/trained_model.h"

namespace trainer {

namespace fs = std::filesystem;

WeightFiles intact_weights(const std::string& path) {
  const auto is_model = [](const fs::path& file) {
    return file.filename() == model_file || file.filename() == index_file;
  };
  const fs::path file = initial_weights_file(path);
  std::error_code ignored;
  const fs::path named = is_model(file) ? file : fs::weakly_canonical(file, ignored);
  if (is_model(named)) {
    const std::string folder = named.has_parent_path() ? named.parent_path().string() : ".";
    if (is_checkpoint(folder))
      read_model_of_checkpoint(folder);
    else if (is_exported_model(folder))
      verify_exported_weights(folder);
  }
  return WeightFiles(file);
}

}  // namespace trainer
