#include "datasets/tokens/token_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

namespace trainer {
namespace {

// llm.c's: 256 numbers of 32 bits, of which these, the version and the number of tokens come first.
constexpr std::uint64_t llm_c_header_bytes = 4 * token_header_words;
constexpr std::int32_t narrow_magic = 20240520, wide_magic = 20240801;

std::int32_t version_of(std::int32_t magic) { return magic == narrow_magic ? 1 : 7; }

/// The token that stands at `from`, of 2 or 4 bytes.
std::int64_t token_at(const std::byte* from, std::int64_t num_bytes) {
  std::uint32_t token = 0;
  std::memcpy(&token, from, static_cast<std::size_t>(num_bytes));
  return token;
}

}  // namespace

std::array<std::uint32_t, 3> token_header(bool is_wide, std::uint32_t num_tokens) {
  const std::int32_t magic = is_wide ? wide_magic : narrow_magic;
  return {static_cast<std::uint32_t>(magic), static_cast<std::uint32_t>(version_of(magic)), num_tokens};
}

TokenFile::TokenFile(const std::string& path) : file_(path) {
  std::array<std::int32_t, 3> start{};
  const std::uint64_t num_bytes = file_.num_bytes();
  if (num_bytes >= sizeof start) file_.read(0, sizeof start, start.data());
  const bool is_wide = start[0] == wide_magic;
  if (start[0] != narrow_magic && !is_wide) {
    if (num_bytes % 2 != 0)
      throw array_error(path,
                        fmt::format("{} bytes are no tokens of 16 bits, and it has no header of llm.c", num_bytes));
    num_tokens_ = static_cast<std::int64_t>(num_bytes / 2);
    return;
  }
  if (start[1] != version_of(start[0]))
    throw array_error(path, fmt::format("it has the header of llm.c's tokens of version {}; known is {}", start[1],
                                        version_of(start[0])));
  token_bytes_ = is_wide ? 4 : 2;
  begin_ = llm_c_header_bytes;
  num_tokens_ = static_cast<std::uint32_t>(start[2]);
  if (num_bytes != offset_of(num_tokens_))
    throw array_error(path, fmt::format("its header tells of {} tokens, which are {} bytes with it; it has {}",
                                        num_tokens_, offset_of(num_tokens_), num_bytes));
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::int64_t vocabulary, std::int32_t* tokens) const {
  // Those of 16 bits are read into the end of the array, where each is taken before one in front of it, now twice as
  // large, is written there.
  const auto num_bytes = static_cast<std::size_t>(count * token_bytes_);
  std::byte* const stored = reinterpret_cast<std::byte*>(tokens + count) - num_bytes;
  file_.read(offset_of(first), num_bytes, stored);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t token = token_at(stored + i * token_bytes_, token_bytes_);
    if (token >= vocabulary)
      throw array_error(path(), fmt::format("token {} at place {} is not below the {} of the vocabulary, data.classes",
                                            token, first + i, vocabulary));
    tokens[i] = static_cast<std::int32_t>(token);
  }
}

std::int64_t TokenFile::largest_token() const {
  constexpr std::int64_t piece_tokens = std::int64_t{1} << 18;
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(piece_tokens, num_tokens_) * token_bytes_));
  std::int64_t largest = -1;
  for (std::int64_t first = 0; first < num_tokens_; first += piece_tokens) {
    const std::int64_t count = std::min(piece_tokens, num_tokens_ - first);
    file_.read(offset_of(first), static_cast<std::size_t>(count * token_bytes_), piece.data());
    for (std::int64_t i = 0; i < count; ++i)
      largest = std::max(largest, token_at(piece.data() + i * token_bytes_, token_bytes_));
  }
  return largest;
}

std::uint32_t TokenFile::checksum() const {
  constexpr std::uint64_t num_places = 1024;
  std::array<std::byte, 4096> piece;
  const std::uint64_t num_bytes = file_.num_bytes();
  uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(&num_bytes), sizeof num_bytes);
  const bool is_whole = num_bytes <= num_places * piece.size();
  const std::uint64_t step = is_whole ? piece.size() : num_bytes / num_places;
  for (std::uint64_t at = 0; at < num_bytes; at += step) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), num_bytes - at));
    file_.read(at, count, piece.data());
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(piece.data()), count);
  }
  return static_cast<std::uint32_t>(sum);
}

}  // namespace trainer
