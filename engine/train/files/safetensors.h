#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/safetensors_header.h"
#include "engine/shape.h"

namespace trainer {

/// A tensor by name, as safetensors files list them.
struct NamedTensor {
  std::string name;
  TensorType type;
};

/// A tensor of a type that files may have and trainer computes nothing with: it can be passed over, not read.
struct ForeignTensor {
  std::string name;
  std::string dtype;  ///< as the format calls it: "BOOL"
  Shape shape;
};

/// What a safetensors file has in front of its tensors, which follow in the order given, without gaps: u64 header
/// length, JSON header padded with spaces to 8 bytes (github.com/huggingface/safetensors). Names are unique.
std::string safetensors_beginning(std::span<const NamedTensor> tensors,
                                  const std::map<std::string, std::string>& metadata);

/// Writes a safetensors file tensor by tensor, and each in pieces, so that little of it is ever in host memory. Throws
/// DataError, with the path, where the file cannot be written.
class SafetensorsWriter {
 public:
  /// Creates (or empties) the file and writes the header. Names are unique.
  SafetensorsWriter(const std::string& path, std::span<const NamedTensor> tensors,
                    const std::map<std::string, std::string>& metadata = {});

  /// The bytes that come next, of one tensor after the other.
  void append(const void* bytes, std::int64_t num_bytes);
  /// Flushes the file to the disk. Every tensor has been appended.
  void finish();

  std::uint64_t file_bytes() const { return file_bytes_; }
  std::uint32_t checksum() const { return checksum_; }  ///< CRC-32 of everything written

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  void write(const void* bytes, std::uint64_t num_bytes);

  std::string path_;
  std::int64_t bytes_to_come_ = 0;  ///< of the tensors
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::uint64_t file_bytes_ = 0;
  std::uint32_t checksum_ = 0;
};

/// A safetensors file open for reading. The header is checked whole before any tensor is read
/// (engine/files/safetensors_header.h). Throws DataError that names the file and what is wrong.
class SafetensorsFile {
 public:
  static constexpr std::uint64_t max_header_bytes = most_safetensors_header_bytes;

  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  /// In the order of the data.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  std::span<const ForeignTensor> foreign() const { return foreign_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Position in tensors(), or -1.
  std::ptrdiff_t find(std::string_view name) const;
  /// Reads one tensor: tensors()[position].type.num_bytes() bytes; or a range of it.
  void read(std::size_t position, void* to) const;
  void read(std::size_t position, std::int64_t offset, std::int64_t num_bytes, void* to) const;

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  bool read_at(std::uint64_t offset, std::uint64_t num_bytes, void* to) const;

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::vector<NamedTensor> tensors_;
  std::vector<ForeignTensor> foreign_;
  std::vector<std::uint64_t> offsets_;  ///< from the start of the file
  std::map<std::string, std::size_t, std::less<>> positions_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace trainer
