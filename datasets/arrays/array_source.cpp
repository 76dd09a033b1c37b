#include "datasets/arrays/array_source.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "datasets/arrays/inflated_bytes.h"

namespace trainer {
namespace {

/// A multiple of every element's size.
constexpr std::size_t array_piece_bytes = std::size_t{256} << 10;

/// A deflated array from front to back, past its header, whose bytes are counted by `crc`.
class InflatedArray {
 public:
  InflatedArray(const ArrayFile& file, const StoredArray& array)
      : bytes_(file, array.deflated_begin, array.deflated_bytes) {
    std::vector<std::byte> header(static_cast<std::size_t>(array.begin));
    read(header.data(), header.size());
  }
  void read(std::byte* to, std::size_t num_bytes) {
    bytes_.read(to, num_bytes);
    crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(to), num_bytes);
  }
  std::uint32_t crc() const { return static_cast<std::uint32_t>(crc_); }

 private:
  InflatedBytes bytes_;
  uLong crc_ = 0;
};

void check_array_crc(const ArraySource& source, std::uint32_t found) {
  const std::optional<std::uint32_t>& stated = source.array().crc32;
  if (!stated || *stated == found) return;
  throw source.error(fmt::format("it is damaged: its CRC-32 is {:08x}, the archive says {:08x}", found, *stated));
}

}  // namespace

ArraySource::ArraySource(std::shared_ptr<const ArrayFile> file, StoredArray array)
    : file_(std::move(file)),
      array_(std::move(array)),
      name_(array_.name.empty() ? file_->path() : fmt::format("{}, '{}'", file_->path(), array_.name)) {
  require_internal(array_.refusal.empty(), "an array that is refused is not read");
}

std::string ArraySource::index_text(std::uint64_t element) const {
  Shape index = array_.shape;
  for (int axis = array_.shape.rank() - 1; axis >= 0; --axis) {
    const auto dim = static_cast<std::uint64_t>(array_.shape[axis]);
    index[axis] = static_cast<std::int64_t>(element % dim);
    element /= dim;
  }
  return index.rank() == 1 ? fmt::format("{}", index[0]) : numpy_text(index);
}

void ArraySource::hold() {
  if (!array_.is_deflated() || held_) return;
  const auto num_bytes = static_cast<std::size_t>(array_.num_bytes());
  // Not written before it is unpacked, so that a lying header takes addresses and no memory.
  auto held = std::make_unique_for_overwrite<std::byte[]>(num_bytes);
  InflatedArray unpacked(*file_, array_);
  for (std::size_t done = 0; done < num_bytes; done += array_piece_bytes)
    unpacked.read(held.get() + done, std::min(array_piece_bytes, num_bytes - done));
  check_array_crc(*this, unpacked.crc());
  held_ = std::move(held);
}

void ArraySource::read(std::uint64_t offset, std::size_t num_bytes, void* to) const {
  if (held_) {
    std::memcpy(to, held_.get() + offset, num_bytes);
    return;
  }
  require_internal(!array_.is_deflated(), "a deflated array is held before it is read");
  file_->read(array_.begin + offset, num_bytes, to);
}

void ArraySource::for_each_piece(const TakePiece& take) const {
  const std::uint64_t num_bytes = array_.num_bytes(), element_bytes = size_of(array_.element);
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(array_piece_bytes, num_bytes)));
  std::optional<InflatedArray> unpacked;
  uLong crc = 0;
  if (array_.is_deflated() && !held_) {
    unpacked.emplace(*file_, array_);
  } else if (array_.crc32 && !held_) {
    std::vector<std::byte> header(static_cast<std::size_t>(array_.header_bytes));
    file_->read(array_.begin - header.size(), header.size(), header.data());
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(header.data()), header.size());
  }
  for (std::uint64_t done = 0; done < num_bytes; done += piece.size()) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), num_bytes - done));
    if (unpacked) {
      unpacked->read(piece.data(), count);
    } else {
      read(done, count, piece.data());
      if (array_.crc32 && !held_) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), count);
    }
    take(done / element_bytes, {piece.data(), count});
  }
  if (!held_) check_array_crc(*this, unpacked ? unpacked->crc() : static_cast<std::uint32_t>(crc));
}

OpenArrayFile open_array_file(const std::string& path) {
  auto file = std::make_shared<ArrayFile>(path);
  std::vector<StoredArray> arrays = list_stored_arrays(*file);
  return {std::move(file), std::move(arrays)};
}

}  // namespace trainer
