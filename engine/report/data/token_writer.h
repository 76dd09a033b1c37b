#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/text/token_id.h"
#include "engine/train/files/replaced_file.h"

namespace trainer {

/// How a file holds tokens, in the processor's order of bytes, the lowest first.
enum class TokenFileFormat {
  nanogpt,  ///< 16 bits a token, and nothing else: np.memmap(file, np.uint16)
  /// llm.c's: 256 numbers of 32 bits, of which the first three are a magic number, a version and the count of tokens,
  /// then the tokens: 20240520, version 1 and 16 bits each, or 20240801, version 7 and 32 bits where 16 are too few.
  llm_c,
};

/// Writes a file of tokens as a ReplacedFile. Every failure is a DataError that names the file.
class TokenWriter {
 public:
  /// `num_ids` bounds the ids. Refuses what the format cannot hold, with what to do.
  TokenWriter(std::string path, TokenFileFormat format, TokenId num_ids);
  void append(std::span<const TokenId> ids);
  void finish();
  /// Of the file as far as it is written.
  std::uint64_t num_bytes() const { return num_bytes_; }
  /// Of a token.
  int bits() const { return is_wide_ ? 32 : 16; }

 private:
  void write(const void* bytes, std::size_t num_bytes);

  std::string path_;
  TokenFileFormat format_;
  bool is_wide_;
  std::optional<ReplacedFile> file_;
  std::uint64_t num_tokens_ = 0, num_bytes_ = 0;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace trainer
