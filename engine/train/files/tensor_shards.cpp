#include "engine/train/files/tensor_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "engine/train/files/safetensors_index.h"

namespace trainer {

TensorShards share_out(std::span<const SavedTensor> tensors, std::vector<std::int64_t>& bytes_of_ranks) {
  const std::size_t most = std::min({bytes_of_ranks.size(), tensors.size(), SafetensorsIndex::max_shards});
  TensorShards shards;
  shards.count = static_cast<int>(std::max<std::size_t>(most, 1));
  shards.of_tensor.resize(tensors.size());
  std::vector<std::size_t> largest_first(tensors.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  const auto bytes_of = [&](std::size_t tensor) { return tensors[tensor].kept.num_bytes(); };
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&](std::size_t a, std::size_t b) { return bytes_of(a) > bytes_of(b); });
  struct Load {
    std::int64_t num_bytes = 0, num_tensors = 0;
  };
  std::vector<Load> loads(static_cast<std::size_t>(shards.count));
  const std::vector<std::int64_t> before = bytes_of_ranks;
  for (const std::size_t tensor : largest_first) {
    std::size_t least = 0;
    const auto order = [&](std::size_t shard) {
      return std::tuple(loads[shard].num_bytes, loads[shard].num_tensors, before[shard]);
    };
    for (std::size_t shard = 1; shard < loads.size(); ++shard)
      if (order(shard) < order(least)) least = shard;
    shards.of_tensor[tensor] = static_cast<int>(least);
    loads[least].num_bytes += bytes_of(tensor);
    ++loads[least].num_tensors;
    bytes_of_ranks[least] += bytes_of(tensor);
  }
  return shards;
}

std::string shard_file(std::string_view stem, int shard, int count) {
  if (count == 1) return fmt::format("{}.safetensors", stem);
  return fmt::format("{}-{:05}-of-{:05}.safetensors", stem, shard + 1, count);
}

std::string shards_index_file(std::string_view stem) { return fmt::format("{}.safetensors.index.json", stem); }

std::string shards_index(std::string_view stem, std::span<const SavedTensor> tensors, const TensorShards& shards) {
  nlohmann::json index = {{"metadata", {{"total_size", std::int64_t{0}}}}, {"weight_map", nlohmann::json::object()}};
  std::int64_t num_bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    num_bytes += tensors[i].kept.num_bytes();
    index["weight_map"][tensors[i].tensor.name] = shard_file(stem, shards.of_tensor[i], shards.count);
  }
  index["metadata"]["total_size"] = num_bytes;
  return index.dump(2) + "\n";
}

}  // namespace trainer
