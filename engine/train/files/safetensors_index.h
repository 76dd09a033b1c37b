#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// What the index beside the shards of a model says: {"metadata": {…}, "weight_map": {"<tensor>": "<file>", …}}, as
/// huggingface_hub writes it as model.safetensors.index.json.
struct SafetensorsIndex {
  static constexpr std::uint64_t max_bytes = 100'000'000;
  static constexpr std::size_t max_shards = 512;  ///< all of which are open at a time

  std::vector<std::string> shards;                         ///< names in the index's folder, sorted
  std::map<std::string, std::size_t, std::less<>> places;  ///< by tensor: its shard
};

/// Reads one. A shard is the plain name of a file that lies beside the index: no folders, nothing hidden. Throws
/// DataError that names the file and what is wrong.
SafetensorsIndex read_safetensors_index(const std::string& path);

/// By its name: "….json".
bool is_safetensors_index(std::string_view path);

inline constexpr const char* index_file = "model.safetensors.index.json";

}  // namespace trainer
