#include "engine/train/files/safetensors.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/errors.h"

namespace trainer {
namespace {

struct DTypeName {
  DType type;
  std::string_view name;
};
constexpr DTypeName dtype_names[] = {{DType::f32, "F32"}, {DType::f16, "F16"}, {DType::bf16, "BF16"}, {DType::u8, "U8"},
                                     {DType::i32, "I32"}, {DType::i64, "I64"}, {DType::f64, "F64"}};

std::string_view file_name_of(DType type) {
  for (const DTypeName& entry : dtype_names) {
    if (entry.type == type) return entry.name;
  }
  throw InternalError("internal error: a dtype without a safetensors name");
}

DataError write_error(const std::string& path) {
  return DataError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

/// None of a type that no tensor of trainer has.
std::optional<DType> dtype_of(std::string_view name) {
  for (const DTypeName& known : dtype_names)
    if (known.name == name) return known.type;
  return std::nullopt;
}

}  // namespace

std::string safetensors_beginning(std::span<const NamedTensor> tensors,
                                  const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::int64_t end = offset + tensor.type.num_bytes();
    header[tensor.name] = {{"dtype", file_name_of(tensor.type.dtype)},
                           {"shape", std::vector<std::int64_t>(tensor.type.shape.begin(), tensor.type.shape.end())},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::string beginning;
  for (int i = 0; i < 8; ++i) beginning.push_back(static_cast<char>(static_cast<unsigned char>(length >> (8 * i))));
  return beginning + text;
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::span<const NamedTensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), file_(std::fopen(path.c_str(), "wb")) {
  if (!file_) throw write_error(path_);
  for (const NamedTensor& tensor : tensors) bytes_to_come_ += tensor.type.num_bytes();
  const std::string beginning = safetensors_beginning(tensors, metadata);
  write(beginning.data(), beginning.size());
}

void SafetensorsWriter::append(const void* bytes, std::int64_t num_bytes) {
  require_internal(num_bytes <= bytes_to_come_, "no more is written than was announced");
  bytes_to_come_ -= num_bytes;
  write(bytes, static_cast<std::uint64_t>(num_bytes));
}

void SafetensorsWriter::finish() {
  require_internal(bytes_to_come_ == 0, "every announced tensor is written");
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) throw write_error(path_);
  std::FILE* file = file_.release();
  if (std::fclose(file) != 0) throw write_error(path_);
}

void SafetensorsWriter::write(const void* bytes, std::uint64_t num_bytes) {
  if (num_bytes == 0) return;
  if (std::fwrite(bytes, 1, num_bytes, file_.get()) != num_bytes) throw write_error(path_);
  checksum_ = static_cast<std::uint32_t>(crc32_z(checksum_, static_cast<const unsigned char*>(bytes), num_bytes));
  file_bytes_ += num_bytes;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
  if (!file_) throw DataError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  if (fseeko(file_.get(), 0, SEEK_END) != 0) throw unusable_safetensors(path, "it is not a file that can be read");
  const off_t end_of_file = ftello(file_.get());
  if (end_of_file < 0) throw unusable_safetensors(path, "it is not a file that can be read");
  SafetensorsHeader header = read_safetensors_header(
      path, static_cast<std::uint64_t>(end_of_file),
      [this](std::uint64_t offset, std::uint64_t num_bytes, void* to) { return read_at(offset, num_bytes, to); });
  for (SafetensorsEntry& entry : header.entries) {
    const std::optional<DType> type = dtype_of(entry.dtype);
    if (!type) {
      foreign_.push_back({std::move(entry.name), std::move(entry.dtype), entry.shape});
      continue;
    }
    positions_.emplace(entry.name, tensors_.size());
    tensors_.push_back({std::move(entry.name), {*type, entry.shape}});
    offsets_.push_back(entry.begin);
  }
  metadata_ = std::move(header.metadata);
}

std::ptrdiff_t SafetensorsFile::find(std::string_view name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? -1 : static_cast<std::ptrdiff_t>(found->second);
}

void SafetensorsFile::read(std::size_t position, void* to) const {
  read(position, 0, tensors_[position].type.num_bytes(), to);
}

void SafetensorsFile::read(std::size_t position, std::int64_t offset, std::int64_t num_bytes, void* to) const {
  if (num_bytes == 0) return;
  const std::uint64_t begin = offsets_[position] + static_cast<std::uint64_t>(offset);
  if (!read_at(begin, static_cast<std::uint64_t>(num_bytes), to)) {
    throw unusable_safetensors(path_, fmt::format("tensor '{}' cannot be read", tensors_[position].name));
  }
}

bool SafetensorsFile::read_at(std::uint64_t offset, std::uint64_t num_bytes, void* to) const {
  return fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) == 0 &&
         std::fread(to, 1, num_bytes, file_.get()) == num_bytes;
}

}  // namespace trainer
