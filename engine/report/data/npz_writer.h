#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/shape.h"

namespace trainer {

/// An array of a .npz file: its member is `name`.npy.
struct NamedArray {
  std::string name;
  TensorType type;
};

/// Whether the file is a ZIP archive whose first member is an array of that name, as NpzWriter writes it. DataError for
/// what cannot be read, or is no file.
bool begins_with_array(const std::string& path, const std::string& name);

/// Writes arrays as numpy.load reads them: a ZIP archive of members that are stored, each a .npy of format 1.0
/// (numpy.lib.format). Arrays grow side by side and none of them is held. Sizes always stand in ZIP64 records (PKWARE's
/// APPNOTE, 4.3.14), so that they have no limit. The file has its name once it is whole: what stood there before stays
/// until then, and nothing else where writing fails. DataError, with the path, where it cannot be written.
class NpzWriter {
 public:
  /// Arrays of f32, f64, f16, u8, i32 or i64, whose names are unique.
  NpzWriter(std::string path, std::vector<NamedArray> arrays);
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  /// The next bytes of the array at that position, in C order, little-endian.
  void append(std::size_t array, std::span<const std::byte> bytes);
  /// Flushes the file to the disk and gives it its name. Every array is complete.
  void finish();

 private:
  struct Member {
    NamedArray array;
    std::uint64_t offset = 0;  ///< of its own header in the file
    std::uint64_t begin = 0;   ///< of the .npy file
    std::uint64_t num_bytes = 0, num_written = 0;
    std::uint32_t crc32 = 0;
  };
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void write_next(Member& member, std::span<const std::byte> bytes);

  std::string path_, temporary_;
  std::vector<Member> members_;
  std::uint64_t end_ = 0;  ///< of the members
  int file_ = -1;
};

}  // namespace trainer
