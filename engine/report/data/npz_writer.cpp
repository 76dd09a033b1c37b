#include "engine/report/data/npz_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "datasets/file_scan.h"
#include "engine/errors.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string npz_number(std::uint64_t value, int num_bytes) {
  std::string bytes;
  for (int i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

constexpr std::string_view zip_local = "PK\x03\x04", zip_entry = "PK\x01\x02", zip_end = "PK\x05\x06",
                           zip64_end = "PK\x06\x06", zip64_locator = "PK\x06\x07";
constexpr std::size_t zip_local_bytes = 30;
constexpr std::uint64_t in_zip64_16 = 0xFFFF, in_zip64_32 = 0xFFFFFFFF;

std::string_view npy_type(DType type) {
  switch (type) {
    case DType::u8:
      return "|u1";
    case DType::f16:
      return "<f2";
    case DType::f32:
      return "<f4";
    case DType::f64:
      return "<f8";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::bf16:
      break;
  }
  throw InternalError("internal error: NumPy has no bfloat16");
}

std::string npy_header_of(const TensorType& type) {
  std::string dims;
  for (const std::int64_t dim : type.shape) dims += fmt::format("{},", dim);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", npy_type(type.dtype), dims);
  constexpr std::size_t before_text = 10, alignment = 64;
  const std::size_t used = before_text + text.size() + 1;
  text.append((alignment - used % alignment) % alignment, ' ').push_back('\n');
  return std::string("\x93NUMPY\x01\x00", 8) + npz_number(text.size(), 2) + text;
}

/// From the version that is needed to the checksum: stored, from the first day that ZIP knows.
std::string facts_of_entry(std::uint32_t crc) {
  constexpr std::uint64_t version = 45, first_day = 0x21;
  return npz_number(version, 2) + npz_number(0, 4) + npz_number(0, 2) + npz_number(first_day, 2) + npz_number(crc, 4) +
         npz_number(in_zip64_32, 4) + npz_number(in_zip64_32, 4);
}

std::string file_name_of(const NamedArray& array) { return array.name + ".npy"; }

std::string zip64_field(std::initializer_list<std::uint64_t> numbers) {
  std::string field = npz_number(1, 2) + npz_number(8 * numbers.size(), 2);
  for (const std::uint64_t number : numbers) field += npz_number(number, 8);
  return field;
}

std::string local_header_of(const NamedArray& array, std::uint64_t num_bytes, std::uint32_t crc) {
  const std::string name = file_name_of(array), extra = zip64_field({num_bytes, num_bytes});
  return std::string(zip_local) + facts_of_entry(crc) + npz_number(name.size(), 2) + npz_number(extra.size(), 2) +
         name + extra;
}

std::string directory_entry_of(const NamedArray& array, std::uint64_t num_bytes, std::uint64_t offset,
                               std::uint32_t crc) {
  constexpr std::uint64_t made_by = 45;
  const std::string name = file_name_of(array), extra = zip64_field({num_bytes, num_bytes, offset});
  return std::string(zip_entry) + npz_number(made_by, 2) + facts_of_entry(crc) + npz_number(name.size(), 2) +
         npz_number(extra.size(), 2) + std::string(10, '\0') + npz_number(in_zip64_32, 4) + name + extra;
}

/// What stands behind the directory.
std::string directory_end_of(std::uint64_t num_entries, std::uint64_t num_bytes, std::uint64_t offset) {
  constexpr std::uint64_t version = 45, rest_bytes = 44;
  return std::string(zip64_end) + npz_number(rest_bytes, 8) + npz_number(version, 2) + npz_number(version, 2) +
         npz_number(0, 8) + npz_number(num_entries, 8) + npz_number(num_entries, 8) + npz_number(num_bytes, 8) +
         npz_number(offset, 8) + std::string(zip64_locator) + npz_number(0, 4) + npz_number(offset + num_bytes, 8) +
         npz_number(1, 4) + std::string(zip_end) + npz_number(0, 4) + npz_number(in_zip64_16, 2) +
         npz_number(in_zip64_16, 2) + npz_number(in_zip64_32, 4) + npz_number(in_zip64_32, 4) + npz_number(0, 2);
}

}  // namespace

bool begins_with_array(const std::string& path, const std::string& name) {
  const std::string wanted = name + ".npy";
  std::vector<std::byte> begin;
  read_file(path, begin, zip_local_bytes + wanted.size());
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  return text.starts_with(zip_local) && text.substr(std::min(zip_local_bytes, text.size())) == wanted;
}

NpzWriter::NpzWriter(std::string path, std::vector<NamedArray> arrays)
    : path_(std::move(path)), temporary_(path_ + ".tmp") {
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) throw DataError(fmt::format("cannot write '{}': {}", temporary_, std::strerror(errno)));
  for (NamedArray& array : arrays) {
    Member member;
    member.offset = end_;
    member.begin = end_ + local_header_of(array, 0, 0).size();
    const std::string header = npy_header_of(array.type);
    member.num_bytes = header.size() + static_cast<std::uint64_t>(array.type.num_bytes());
    member.array = std::move(array);
    end_ = member.begin + member.num_bytes;
    write_next(members_.emplace_back(std::move(member)), bytes_of_text(header));
  }
}

NpzWriter::~NpzWriter() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void NpzWriter::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw DataError(fmt::format("cannot write '{}': {}", temporary_, std::strerror(errno)));
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void NpzWriter::write_next(Member& member, std::span<const std::byte> bytes) {
  require_internal(bytes.size() <= member.num_bytes - member.num_written, "an array has the bytes of its shape");
  write_at(member.begin + member.num_written, bytes);
  member.num_written += bytes.size();
  member.crc32 =
      static_cast<std::uint32_t>(crc32_z(member.crc32, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

void NpzWriter::append(std::size_t array, std::span<const std::byte> bytes) { write_next(members_.at(array), bytes); }

void NpzWriter::finish() {
  std::string directory;
  for (const Member& member : members_) {
    require_internal(member.num_written == member.num_bytes, "every array is complete");
    write_at(member.offset, bytes_of_text(local_header_of(member.array, member.num_bytes, member.crc32)));
    directory += directory_entry_of(member.array, member.num_bytes, member.offset, member.crc32);
  }
  write_at(end_, bytes_of_text(directory + directory_end_of(members_.size(), directory.size(), end_)));
  if (::fsync(file_) != 0 && errno != EINVAL)
    throw DataError(fmt::format("cannot write '{}': {}", temporary_, std::strerror(errno)));
  replace_durably(temporary_, path_);
  ::close(file_);
  file_ = -1;
}

}  // namespace trainer
