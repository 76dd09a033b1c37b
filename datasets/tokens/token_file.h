#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "datasets/arrays/array_file.h"

namespace trainer {

/// The header of llm.c's files of tokens: so many numbers of 32 bits, of which the first three tell what follows.
inline constexpr std::size_t token_header_words = 256;
/// Those three: of tokens of 32 or 16 bits, and how many there are.
std::array<std::uint32_t, 3> token_header(bool is_wide, std::uint32_t num_tokens);

/// A file of tokens, as nanoGPT has them, 16 bits each and nothing else, or llm.c: behind 1,024 bytes of header 16 or
/// 32 bits each, told by the header's first number. Read at any place by any number of threads: Note [Arrays are read,
/// not mapped] in arrays/array_file.h. Every failure is a DataError that names the file.
class TokenFile {
 public:
  explicit TokenFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::int64_t num_tokens() const { return num_tokens_; }

  /// Tokens [first, first + count), which the file has. DataError with its place for one that is none of [0,
  /// vocabulary). Allocates nothing.
  void read(std::int64_t first, std::int64_t count, std::int64_t vocabulary, std::int32_t* tokens) const;
  /// Reads all of it.
  std::int64_t largest_token() const;
  /// CRC-32 of its size and all of its bytes, or of 4 KiB at 1,024 places where they are more.
  std::uint32_t checksum() const;

 private:
  std::uint64_t offset_of(std::int64_t token) const {
    return begin_ + static_cast<std::uint64_t>(token) * static_cast<std::uint64_t>(token_bytes_);
  }

  ArrayFile file_;
  std::uint64_t begin_ = 0;  ///< of the first token
  std::int64_t token_bytes_ = 2;
  std::int64_t num_tokens_ = 0;
};

}  // namespace trainer
