#include <string>

#include "engine/errors.h"
#include "engine/train/files/safetensors_index.h"
#include "tests/fuzz/fuzzed_file.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

void read_fuzzed_safetensors_index(std::string_view input) {
  static const FuzzedFile file;
  file.write(input);
  const SafetensorsIndex index = read_safetensors_index(file.path());
  require_internal(!index.places.empty(), "an index without tensors is refused");
  for (const auto& [name, shard] : index.places)
    require_internal(shard < index.shards.size(), "a tensor is in one of the shards");
  for (const std::string& shard : index.shards) {
    const bool leaves_folder = shard.find('/') != std::string::npos || shard.find('\0') != std::string::npos;
    require_internal(!leaves_folder && shard.ends_with(".safetensors"), "a shard lies beside its index");
  }
}

}  // namespace trainer
