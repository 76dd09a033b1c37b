#include "engine/train/files/weight_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>
#include <string_view>

#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"
#include "engine/train/files/foreign_weights.h"
#include "engine/train/files/initial_weights.h"
#include "engine/train/files/safetensors_index.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// At most ten of them.
std::string some_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 10;
  std::vector<std::string> shown;
  for (const std::string& name : names)
    if (shown.size() < most) shown.push_back(shortened(name));
  const std::size_t others = names.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, ", "), others > 0 ? fmt::format(" and {} more", others) : "");
}

}  // namespace

WeightFiles::WeightFiles(const std::string& path) : path_(initial_weights_file(path)) {
  if (is_safetensors_index(path_)) {
    open_shards();
    return;
  }
  refuse_foreign_weights(path_);
  files_.emplace_back(path_);
  add_tensors(0);
}

void WeightFiles::open_shards() {
  const SafetensorsIndex index = read_safetensors_index(path_);
  const fs::path folder = fs::path(path_).parent_path();
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const std::string& shard : index.shards)
    if (!fs::exists(folder / shard, ignored)) missing.push_back(shard);
  if (!missing.empty())
    throw DataError(fmt::format("{} names files that are not beside it: {}", path_, some_names(missing)));
  files_.reserve(index.shards.size());
  for (const std::string& shard : index.shards) {
    const std::string shard_path = (folder / shard).string();
    refuse_foreign_weights(shard_path);
    files_.emplace_back(shard_path);
    add_tensors(files_.size() - 1);
  }
  std::vector<std::string> unnamed;
  std::set<std::string_view> found;
  for (const WeightTensor& tensor : tensors_) {
    const auto place = index.places.find(tensor.name);
    if (place != index.places.end() && place->second == tensor.file)
      found.insert(tensor.name);
    else
      unnamed.push_back(fmt::format("'{}' of {}", tensor.name, index.shards[tensor.file]));
  }
  if (!unnamed.empty())
    throw DataError(fmt::format("{} does not say where these tensors are: {}", path_, some_names(unnamed)));
  if (found.size() == index.places.size()) return;
  std::vector<std::string> lacking;
  for (const auto& [name, shard] : index.places)
    if (!found.contains(name)) lacking.push_back(fmt::format("'{}' in {}", name, index.shards[shard]));
  throw DataError(fmt::format("{} names tensors that are not where it says: {}", path_, some_names(lacking)));
}

void WeightFiles::add_tensors(std::size_t file) {
  const SafetensorsFile& from = files_[file];
  for (std::size_t i = 0; i < from.tensors().size(); ++i) {
    const NamedTensor& tensor = from.tensors()[i];
    tensors_.push_back({.name = tensor.name,
                        .dtype = std::string(name_of(tensor.type.dtype)),
                        .type = tensor.type,
                        .is_foreign = false,
                        .file = file,
                        .position = i});
  }
  for (const ForeignTensor& tensor : from.foreign()) {
    tensors_.push_back({.name = tensor.name,
                        .dtype = tensor.dtype,
                        .type = {DType::u8, tensor.shape},
                        .is_foreign = true,
                        .file = file,
                        .position = 0});
  }
}

}  // namespace trainer
