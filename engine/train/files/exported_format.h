#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace trainer {

// What Note [Exported models] in exported_model.h says, in the words that stand in the files.

inline constexpr const char* exported_format_name = "trainer-export";
inline constexpr int exported_format_version = 1;
/// data.tokenizer of an exported configuration: files that lie beside it.
inline constexpr const char* exported_tokenizer = ".";
inline constexpr std::size_t most_prediction_file_bytes = std::size_t{256} << 20;
inline constexpr std::size_t most_exported_file_bytes = std::size_t{64} << 20;

struct FileSum {
  std::int64_t num_bytes = 0;
  std::string crc32;  ///< "00c0ffee"
};
/// DataError where it cannot be read.
FileSum sum_of_file(const std::string& path);

}  // namespace trainer
