#include <fmt/format.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <string>

#include "engine/train/config_drift.h"
#include "engine/train/files/checkpoint.h"
#include "tests/fuzz/fuzzed_folder.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

namespace {

/// With its checksum, which no fuzzer finds.
std::string with_checksum(std::string_view state) {
  nlohmann::json json = nlohmann::json::parse(state, nullptr, false);
  if (!json.is_object()) return std::string(state);
  json.erase("crc32");
  const std::string text = json.dump();
  json["crc32"] = fmt::format("{:08x}", crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
  return json.dump();
}

constexpr std::string_view shards_index = R"({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})";

bool is_sharded(std::string_view state) {
  const nlohmann::json json = nlohmann::json::parse(state, nullptr, false);
  return json.is_object() && json.value("format_version", nlohmann::json()) == 2;
}

}  // namespace

/// The state.json of a checkpoint whose other files are empty, but for indexes, where it is of one that has shards.
void read_fuzzed_checkpoint(std::string_view input) {
  static const FuzzedFile state, empty, index;
  static const FuzzedFolder whole(
      {{"state.json", state.path()}, {"model.safetensors", empty.path()}, {"optimizer.safetensors", empty.path()}});
  static const FuzzedFolder sharded({{"state.json", state.path()},
                                     {"model.safetensors.index.json", index.path()},
                                     {"optimizer.safetensors.index.json", index.path()},
                                     {"a.safetensors", empty.path()},
                                     {"b.safetensors", empty.path()}});
  state.write(with_checksum(input));
  index.write(shards_index);
  const Checkpoint checkpoint = read_checkpoint((is_sharded(input) ? sharded : whole).path());
  (void)find_config_drift(checkpoint.given_config(), checkpoint.config_json);
  (void)saved_batch_size(checkpoint.config_json);
}

}  // namespace trainer
