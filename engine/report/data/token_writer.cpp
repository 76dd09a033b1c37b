#include "engine/report/data/token_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/errors.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

constexpr TokenId most_narrow_ids = 1U << 16U;
constexpr std::size_t num_header_words = 256;
// llm.c, dev/data/data_common.py.
constexpr std::int32_t narrow_magic = 20240520, narrow_version = 1, wide_magic = 20240801, wide_version = 7;

}  // namespace

TokenWriter::TokenWriter(std::string path, TokenFileFormat format, TokenId num_ids)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), format_(format), is_wide_(num_ids > most_narrow_ids) {
  if (is_wide_ && format == TokenFileFormat::nanogpt)
    throw DataError(
        fmt::format("'{}': ids up to {} do not fit 16 bits; --format llm.c writes 32 bits each", path_, num_ids - 1));
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) fail();
  if (format == TokenFileFormat::llm_c) {
    const std::array<std::int32_t, num_header_words> empty{};
    write(empty.data(), sizeof empty);
  }
}

TokenWriter::~TokenWriter() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void TokenWriter::fail() const {
  throw DataError(fmt::format("cannot write '{}': {}", temporary_, std::strerror(errno)));
}

void TokenWriter::write(const void* bytes, std::size_t num_bytes) {
  const char* from = static_cast<const char*>(bytes);
  num_bytes_ += num_bytes;
  while (num_bytes > 0) {
    const ssize_t written = ::write(file_, from, num_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    from += written;
    num_bytes -= static_cast<std::size_t>(written);
  }
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
    if (::pwrite(file_, header.data(), sizeof header, 0) != static_cast<ssize_t>(sizeof header)) fail();
  }
  if (::fsync(file_) != 0 && errno != EINVAL) fail();
  const int file = std::exchange(file_, -1);
  if (::close(file) != 0) fail();
  replace_durably(temporary_, path_);
}

}  // namespace trainer
