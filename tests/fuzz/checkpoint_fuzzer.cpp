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

}  // namespace

/// The state.json of a checkpoint whose other files are empty.
void read_fuzzed_checkpoint(std::string_view input) {
  static const FuzzedFile state, empty;
  static const FuzzedFolder folder(
      {{"state.json", state.path()}, {"model.safetensors", empty.path()}, {"optimizer.safetensors", empty.path()}});
  state.write(with_checksum(input));
  const Checkpoint checkpoint = read_checkpoint(folder.path());
  (void)find_config_drift(checkpoint.given_config(), checkpoint.config_json);
  (void)saved_batch_size(checkpoint.config_json);
}

}  // namespace trainer
