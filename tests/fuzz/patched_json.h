#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "tests/fuzz/fuzzed_file.h"

namespace trainer {

/// Writes `whole` with the input done to it as a patch (RFC 7386). What is no JSON is a file itself.
inline void write_patched(const FuzzedFile& file, nlohmann::json whole, std::string_view input) {
  const nlohmann::json patch = nlohmann::json::parse(input, nullptr, false);
  if (patch.is_discarded()) return file.write(input);
  whole.merge_patch(patch);
  file.write(whole.dump());
}

}  // namespace trainer
