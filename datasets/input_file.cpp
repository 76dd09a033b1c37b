#include "datasets/input_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/errors.h"

namespace trainer {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{64} << 10;

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

}  // namespace

bool file_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

struct InputFile::Inflater {
  z_stream stream{};
  bool ended = false;  ///< the last member is complete

  Inflater() {
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (inflateInit2(&stream, gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

InputFile::InputFile(const std::string& path) : name_(path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw DataError(fmt::format("'{}' is not a file", path));
  file_.reset(std::fopen(path.c_str(), "rb"));
  if (!file_) throw DataError(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw DataError(fmt::format("cannot read the size of '{}': {}", path, error.message()));
  stored_size_ = size;
  buffer_.resize(buffer_bytes);
  refill();
  start();
}

InputFile::InputFile(std::string name, std::span<const std::byte> bytes)
    : name_(std::move(name)), stored_size_(bytes.size()), available_(bytes) {
  start();
}

InputFile::~InputFile() = default;

void InputFile::start() {
  if (is_gzip(available_)) inflater_ = std::make_unique<Inflater>();
}

std::uint64_t InputFile::largest_size() const {
  // Deflate packs at most 1032 bytes into one (zlib's "Maximum Expansion Factor").
  return inflater_ ? stored_size_ * 1032 : stored_size_;
}

bool InputFile::refill() {
  if (!file_) return false;
  errno = 0;
  const std::size_t num_read = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
  if (num_read < buffer_.size() && std::ferror(file_.get()) != 0)
    throw DataError(
        fmt::format("{}: cannot read at offset {}: {}", name_, stored_offset_ + num_read, std::strerror(errno)));
  available_ = {buffer_.data(), num_read};
  return num_read > 0;
}

std::size_t InputFile::read(std::byte* to, std::size_t num_bytes) {
  const std::size_t num_read = inflater_ ? read_inflated(to, num_bytes) : read_stored(to, num_bytes);
  offset_ += num_read;
  return num_read;
}

std::size_t InputFile::read_stored(std::byte* to, std::size_t num_bytes) {
  std::size_t done = 0;
  while (done < num_bytes) {
    if (available_.empty() && !refill()) break;
    const std::size_t count = std::min(available_.size(), num_bytes - done);
    std::memcpy(to + done, available_.data(), count);
    available_ = available_.subspan(count);
    stored_offset_ += count;
    done += count;
  }
  return done;
}

std::size_t InputFile::read_inflated(std::byte* to, std::size_t num_bytes) {
  z_stream& stream = inflater_->stream;
  std::size_t done = 0;
  while (done < num_bytes) {
    if (available_.empty() && !refill()) {
      if (inflater_->ended) break;
      throw DataError(fmt::format("{}: the gzip stream is cut off at byte {} of the file, after {} unpacked bytes",
                                  name_, stored_offset_, offset_ + done));
    }
    if (inflater_->ended) {
      // Files may be concatenations of gzip members.
      if (available_[0] != std::byte{0x1f})
        throw DataError(
            fmt::format("{}: unexpected bytes after the gzip stream, at byte {} of the file", name_, stored_offset_));
      inflateReset(&stream);
      inflater_->ended = false;
    }
    constexpr std::size_t most_at_once = std::size_t{1} << 30;
    const std::size_t num_in = std::min(available_.size(), most_at_once);
    const std::size_t num_out = std::min(num_bytes - done, most_at_once);
    // zlib's interface is not const; it does not write to its input.
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(available_.data()));
    stream.avail_in = static_cast<uInt>(num_in);
    stream.next_out = reinterpret_cast<Bytef*>(to + done);
    stream.avail_out = static_cast<uInt>(num_out);
    const int result = inflate(&stream, Z_NO_FLUSH);
    const std::size_t taken = num_in - stream.avail_in;
    available_ = available_.subspan(taken);
    stored_offset_ += taken;
    done += num_out - stream.avail_out;
    if (result == Z_STREAM_END) {
      inflater_->ended = true;
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw DataError(fmt::format("{}: the gzip stream is damaged at byte {} of the file, after {} unpacked bytes: {}",
                                  name_, stored_offset_, offset_ + done,
                                  stream.msg != nullptr ? stream.msg : "unknown contents"));
    }
  }
  return done;
}

void InputFile::read_exactly(std::byte* to, std::size_t num_bytes, std::string_view expected) {
  const std::uint64_t start = offset_;
  if (read(to, num_bytes) != num_bytes)
    throw DataError(fmt::format("{}: ends at offset {}{}, expected {} bytes from offset {}: {}", name_, offset_,
                                compressed() ? " (unpacked)" : "", num_bytes, start, expected));
}

std::vector<std::byte> InputFile::read_vector(std::uint64_t num_bytes, std::string_view expected) {
  constexpr std::uint64_t first_bytes = std::uint64_t{64} << 20;
  const std::uint64_t start = offset_;
  std::vector<std::byte> bytes;
  while (bytes.size() < num_bytes) {
    const std::uint64_t old_size = bytes.size();
    const std::uint64_t new_size = std::min(num_bytes, std::max(first_bytes, 2 * old_size));
    bytes.resize(new_size);
    if (read(bytes.data() + old_size, new_size - old_size) != new_size - old_size)
      throw DataError(fmt::format("{}: ends at offset {}{}, expected {} bytes from offset {}: {}", name_, offset_,
                                  compressed() ? " (unpacked)" : "", num_bytes, start, expected));
  }
  return bytes;
}

void InputFile::expect_end() {
  std::byte extra{};
  const std::uint64_t end = offset_;
  if (read(&extra, 1) != 0)
    throw DataError(fmt::format("{}: goes on at offset {}, expected the end of the file", name_, end));
}

}  // namespace trainer
