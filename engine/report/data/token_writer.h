#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "datasets/text/token_id.h"

namespace trainer {

/// How a file holds tokens, in the processor's order of bytes, the lowest first.
enum class TokenFileFormat {
  nanogpt,  ///< 16 bits a token, and nothing else: np.memmap(file, np.uint16)
  /// llm.c's: 256 numbers of 32 bits, of which the first three are a magic number, a version and the count of tokens,
  /// then the tokens: 20240520, version 1 and 16 bits each, or 20240801, version 7 and 32 bits where 16 are too few.
  llm_c,
};

/// Writes a file of tokens beside its place, and moves it there when it is whole. Every failure is a DataError that
/// names the file.
class TokenWriter {
 public:
  /// `num_ids` bounds the ids. Refuses what the format cannot hold, with what to do.
  TokenWriter(std::string path, TokenFileFormat format, TokenId num_ids);
  /// Removes what is not finished.
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  void append(std::span<const TokenId> ids);
  void finish();
  /// Of the file as far as it is written.
  std::uint64_t num_bytes() const { return num_bytes_; }
  /// Of a token.
  int bits() const { return is_wide_ ? 32 : 16; }

 private:
  void write(const void* bytes, std::size_t num_bytes);
  [[noreturn]] void fail() const;

  std::string path_, temporary_;
  TokenFileFormat format_;
  bool is_wide_;
  int file_ = -1;
  std::uint64_t num_tokens_ = 0, num_bytes_ = 0;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace trainer
