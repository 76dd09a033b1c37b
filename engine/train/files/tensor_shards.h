#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/train/files/saved_tensors.h"

namespace trainer {

/// Files that share tensors among them, as Hugging Face's do: "model-00001-of-00004.safetensors" … and
/// "model.safetensors.index.json" (safetensors_index.h), which says where each tensor is. No file is without a tensor.
struct TensorShards {
  int count = 1;                 ///< of files; 1: there is one, "model.safetensors", without an index
  std::vector<int> of_tensor{};  ///< by tensor: its file, from 0, which the rank of that number writes

  bool has_index() const { return count > 1; }
};

/// Shares tensors out among at most as many files as there are ranks and tensors, and as an index may name: the largest
/// first, each to the file with the fewest bytes, of those alike to the rank with the fewest in `bytes_of_ranks`, which
/// is then more. The same on all ranks.
TensorShards share_out(std::span<const SavedTensor> tensors, std::vector<std::int64_t>& bytes_of_ranks);

/// `stem`: "model".
std::string shard_file(std::string_view stem, int shard, int count);
std::string shards_index_file(std::string_view stem);
/// What the index says.
std::string shards_index(std::string_view stem, std::span<const SavedTensor> tensors, const TensorShards& shards);

}  // namespace trainer
