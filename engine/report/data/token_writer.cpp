#include "engine/report/data/token_writer.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "engine/errors.h"

namespace trainer {
namespace {

constexpr TokenId most_narrow_ids = 1U << 16U;
constexpr std::size_t num_header_words = 256;
// llm.c, dev/data/data_common.py.
constexpr std::int32_t narrow_magic = 20240520, narrow_version = 1, wide_magic = 20240801, wide_version = 7;

}  // namespace

TokenWriter::TokenWriter(std::string path, TokenFileFormat format, TokenId num_ids)
    : path_(std::move(path)), format_(format), is_wide_(num_ids > most_narrow_ids) {
  if (is_wide_ && format == TokenFileFormat::nanogpt)
    throw DataError(
        fmt::format("'{}': ids up to {} do not fit 16 bits; --format llm.c writes 32 bits each", path_, num_ids - 1));
  file_.emplace(path_);
  if (format_ == TokenFileFormat::llm_c) {
    const std::array<std::int32_t, num_header_words> empty{};
    write(empty.data(), sizeof empty);
  }
}

void TokenWriter::write(const void* bytes, std::size_t num_bytes) {
  num_bytes_ += num_bytes;
  file_->write(bytes, num_bytes);
}

void TokenWriter::append(std::span<const TokenId> ids) {
  num_tokens_ += ids.size();
  constexpr std::uint64_t most_counted = std::numeric_limits<std::int32_t>::max();
  if (format_ == TokenFileFormat::llm_c && num_tokens_ > most_counted)
    throw DataError(
        fmt::format("'{}': llm.c's format counts at most {} tokens; encode parts of the text", path_, most_counted));
  if (is_wide_) return write(ids.data(), ids.size_bytes());
  narrow_.assign(ids.begin(), ids.end());
  write(narrow_.data(), narrow_.size() * sizeof(std::uint16_t));
}

void TokenWriter::finish() {
  if (format_ == TokenFileFormat::llm_c) {
    const std::array<std::int32_t, 3> header = {is_wide_ ? wide_magic : narrow_magic,
                                                is_wide_ ? wide_version : narrow_version,
                                                static_cast<std::int32_t>(num_tokens_)};
    file_->write_beginning(header.data(), sizeof header);
  }
  file_->finish();
}

}  // namespace trainer
