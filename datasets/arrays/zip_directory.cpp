#include "datasets/arrays/zip_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>

namespace trainer {
namespace {

// Sizes and offsets of the records, of which only what is needed here is read.
constexpr std::uint32_t zip_local_signature = 0x04034b50, zip_entry_signature = 0x02014b50,
                        zip_end_signature = 0x06054b50, zip64_end_signature = 0x06064b50,
                        zip64_locator_signature = 0x07064b50;
constexpr std::size_t zip_local_bytes = 30, zip_entry_bytes = 46, zip_end_bytes = 22, zip64_end_bytes = 56,
                      zip64_locator_bytes = 20;
constexpr std::size_t most_zip_comment_bytes = 0xFFFF;
/// Of the central directory: some hundred thousand arrays.
constexpr std::uint64_t most_zip_directory_bytes = std::uint64_t{64} << 20;
constexpr std::uint32_t in_zip64_32 = 0xFFFFFFFF;
constexpr std::uint16_t in_zip64_16 = 0xFFFF;
/// zlib's "Maximum Expansion Factor".
constexpr std::uint64_t most_zip_expansion = 1032;

using ZipBytes = std::span<const unsigned char>;

/// The little-endian number of `size` bytes at an offset, which the caller has made sure is there.
std::uint64_t zip_number(ZipBytes bytes, std::size_t offset, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{bytes[offset + i]} << (8 * i);
  return value;
}
std::uint16_t zip_u16(ZipBytes bytes, std::size_t offset) {
  return static_cast<std::uint16_t>(zip_number(bytes, offset, 2));
}
std::uint32_t zip_u32(ZipBytes bytes, std::size_t offset) {
  return static_cast<std::uint32_t>(zip_number(bytes, offset, 4));
}

DataError unusable_zip(const ArrayFile& file, std::string_view what) {
  return array_error(file.path(), fmt::format("not a usable ZIP archive (.npz): {}", what));
}

/// Where the central directory lies.
struct ZipDirectoryPlace {
  std::uint64_t offset = 0, num_bytes = 0, num_entries = 0;
};

std::vector<unsigned char> read_zip_bytes(const ArrayFile& file, std::uint64_t offset, std::size_t num_bytes) {
  std::vector<unsigned char> bytes(num_bytes);
  file.read(offset, num_bytes, bytes.data());
  return bytes;
}

/// In the ZIP64 record, whose place its locator says, right in front of the end record at `end`.
ZipDirectoryPlace zip64_place(const ArrayFile& file, std::uint64_t end) {
  if (end < zip64_locator_bytes) throw unusable_zip(file, "its ZIP64 locator is missing");
  const auto locator = read_zip_bytes(file, end - zip64_locator_bytes, zip64_locator_bytes);
  if (zip_u32(locator, 0) != zip64_locator_signature) throw unusable_zip(file, "its ZIP64 locator is missing");
  const std::uint64_t offset = zip_number(locator, 8, 8);
  if (offset > end - zip64_locator_bytes || end - zip64_locator_bytes - offset < zip64_end_bytes)
    throw unusable_zip(file, "its ZIP64 record lies outside the file");
  const auto record = read_zip_bytes(file, offset, zip64_end_bytes);
  if (zip_u32(record, 0) != zip64_end_signature) throw unusable_zip(file, "its ZIP64 record is missing");
  if (zip_u32(record, 16) != 0 || zip_u32(record, 20) != 0) throw unusable_zip(file, "it has several disks");
  return {zip_number(record, 48, 8), zip_number(record, 40, 8), zip_number(record, 32, 8)};
}

ZipDirectoryPlace find_zip_directory(const ArrayFile& file) {
  const std::uint64_t size = file.num_bytes();
  const std::uint64_t searched = std::min<std::uint64_t>(size, zip_end_bytes + most_zip_comment_bytes);
  const auto tail = read_zip_bytes(file, size - searched, static_cast<std::size_t>(searched));
  for (std::size_t at = tail.size() < zip_end_bytes ? 0 : tail.size() - zip_end_bytes + 1; at-- > 0;) {
    const ZipBytes record = ZipBytes(tail).subspan(at);
    if (zip_u32(record, 0) != zip_end_signature || zip_u16(record, 20) != record.size() - zip_end_bytes) continue;
    const std::uint64_t end = size - record.size();
    ZipDirectoryPlace place = {zip_u32(record, 16), zip_u32(record, 12), zip_u16(record, 10)};
    const bool is_zip64 =
        place.offset == in_zip64_32 || place.num_bytes == in_zip64_32 || place.num_entries == in_zip64_16;
    if (is_zip64) {
      place = zip64_place(file, end);
    } else if (zip_u16(record, 4) != 0 || zip_u16(record, 6) != 0) {
      throw unusable_zip(file, "it has several disks");
    }
    if (place.offset > end || place.num_bytes > end - place.offset)
      throw unusable_zip(file, "its directory lies outside the file");
    if (place.num_bytes > most_zip_directory_bytes)
      throw unusable_zip(file, fmt::format("its directory has {} bytes, at most {} are read", place.num_bytes,
                                           most_zip_directory_bytes));
    return place;
  }
  throw unusable_zip(file, "it is cut off: no end of a directory is there");
}

/// Puts what the ZIP64 field holds in the place of numbers that did not fit, in its order.
void read_zip64_field(const ArrayFile& file, ZipBytes extra, std::span<std::uint64_t* const> numbers,
                      const std::string& name) {
  while (extra.size() >= 4) {
    const std::size_t size = zip_u16(extra, 2);
    if (size > extra.size() - 4) break;
    if (zip_u16(extra, 0) == 1) {
      const ZipBytes field = extra.subspan(4, size);
      std::size_t at = 0;
      for (std::uint64_t* const number : numbers) {
        if (*number != in_zip64_32) continue;
        if (field.size() - at < 8) break;
        *number = zip_number(field, at, 8);
        at += 8;
      }
      return;
    }
    extra = extra.subspan(4 + size);
  }
  const bool is_needed =
      std::any_of(numbers.begin(), numbers.end(), [](const std::uint64_t* number) { return *number == in_zip64_32; });
  if (is_needed) throw unusable_zip(file, fmt::format("'{}' lacks its ZIP64 sizes", name));
}

/// Where the bytes of a member begin, behind its own header at `offset`.
std::uint64_t begin_of_zip_entry(const ArrayFile& file, std::uint64_t offset, std::uint64_t end,
                                 const std::string& name) {
  if (offset > end || end - offset < zip_local_bytes)
    throw unusable_zip(file, fmt::format("'{}' lies outside the file", name));
  const auto header = read_zip_bytes(file, offset, zip_local_bytes);
  if (zip_u32(header, 0) != zip_local_signature)
    throw unusable_zip(file, fmt::format("'{}' has no header at offset {}", name, offset));
  return offset + zip_local_bytes + zip_u16(header, 26) + zip_u16(header, 28);
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const ArrayFile& file) {
  const ZipDirectoryPlace place = find_zip_directory(file);
  const auto directory = read_zip_bytes(file, place.offset, static_cast<std::size_t>(place.num_bytes));
  ZipBytes rest = directory;
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  while (entries.size() < place.num_entries) {
    if (rest.size() < zip_entry_bytes || zip_u32(rest, 0) != zip_entry_signature)
      throw unusable_zip(file,
                         fmt::format("its directory ends after {} of {} members", entries.size(), place.num_entries));
    const std::size_t name_bytes = zip_u16(rest, 28), extra_bytes = zip_u16(rest, 30),
                      comment_bytes = zip_u16(rest, 32);
    if (rest.size() - zip_entry_bytes < name_bytes + extra_bytes + comment_bytes)
      throw unusable_zip(file, fmt::format("its directory ends in member {}", entries.size() + 1));
    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char*>(rest.data()) + zip_entry_bytes, name_bytes);
    if (!names.insert(entry.name).second) throw unusable_zip(file, fmt::format("'{}' occurs twice", entry.name));
    const unsigned method = zip_u16(rest, 10);
    constexpr unsigned encrypted = 1;
    if ((zip_u16(rest, 8) & encrypted) != 0) throw unusable_zip(file, fmt::format("'{}' is encrypted", entry.name));
    if (method != 0 && method != 8)
      throw unusable_zip(file, fmt::format("'{}' is packed by method {}, not by deflate", entry.name, method));
    entry.deflated = method == 8;
    entry.crc32 = zip_u32(rest, 16);
    entry.stored_bytes = zip_u32(rest, 20);
    entry.num_bytes = zip_u32(rest, 24);
    std::uint64_t offset = zip_u32(rest, 42);
    std::uint64_t* const numbers[] = {&entry.num_bytes, &entry.stored_bytes, &offset};
    read_zip64_field(file, rest.subspan(zip_entry_bytes + name_bytes, extra_bytes), numbers, entry.name);
    entry.begin = begin_of_zip_entry(file, offset, place.offset, entry.name);
    if (entry.begin > place.offset || entry.stored_bytes > place.offset - entry.begin)
      throw unusable_zip(
          file, fmt::format("it is cut off: '{}' has {} bytes from offset {}, the directory begins at {}", entry.name,
                            entry.stored_bytes, entry.begin, place.offset));
    if (!entry.deflated && entry.num_bytes != entry.stored_bytes)
      throw unusable_zip(
          file, fmt::format("'{}' is stored in {} bytes, and has {}", entry.name, entry.stored_bytes, entry.num_bytes));
    if (entry.deflated && entry.num_bytes / most_zip_expansion > entry.stored_bytes)
      throw unusable_zip(file, fmt::format("'{}' claims {} bytes, more than {} packed ones can hold", entry.name,
                                           entry.num_bytes, entry.stored_bytes));
    entries.push_back(std::move(entry));
    rest = rest.subspan(zip_entry_bytes + name_bytes + extra_bytes + comment_bytes);
  }
  return entries;
}

}  // namespace trainer
