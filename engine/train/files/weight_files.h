#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/train/files/safetensors.h"

namespace trainer {

/// A tensor of weights that somebody has saved.
struct WeightTensor {
  std::string name;
  std::string dtype;  ///< "f32"; of a foreign tensor as the format calls it
  TensorType type;    ///< of a foreign one the shape alone
  bool is_foreign = false;
  std::size_t file = 0, position = 0;  ///< in WeightFiles::files() and their tensors()
};

/// The tensors of a safetensors file, or of all shards that an index names, as one list. Each tensor of the index is in
/// the shard that it says, and the shards have no others.
class WeightFiles {
 public:
  /// `path`: a file, or what initial_weights_file makes of it. Throws DataError that names the file and what is wrong:
  /// a missing shard, a damaged header, another format with what converts it (foreign_weights.h).
  explicit WeightFiles(const std::string& path);

  const std::string& path() const { return path_; }  ///< the file, or the index
  std::span<const WeightTensor> tensors() const { return tensors_; }
  std::span<const SafetensorsFile> files() const { return files_; }

  /// Reads a range of a tensor that is not foreign, in bytes.
  void read(const WeightTensor& tensor, std::int64_t offset, std::int64_t num_bytes, void* to) const {
    files_[tensor.file].read(tensor.position, offset, num_bytes, to);
  }

 private:
  void open_shards();
  void add_tensors(std::size_t file);

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<WeightTensor> tensors_;
};

}  // namespace trainer
