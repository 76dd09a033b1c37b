#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "datasets/arrays/stored_array.h"

namespace trainer {

/// The elements of an array as bytes, by offset: those of a deflated one are held in memory once hold() was called, all
/// others are read from their file each time (Note [Arrays are read, not mapped] in array_file.h).
class ArraySource {
 public:
  /// The array can be read: it has no refusal.
  ArraySource(std::shared_ptr<const ArrayFile> file, StoredArray array);

  const StoredArray& array() const { return array_; }
  const ArrayFile& file() const { return *file_; }
  /// What messages call it: "train.npz, 'images'".
  const std::string& name() const { return name_; }
  /// "train.npz, 'images': message".
  DataError error(std::string_view message) const { return array_error(name_, message); }
  /// "(5, 3, 4)": where an element stands.
  std::string index_text(std::uint64_t element) const;

  /// Unpacks a deflated array into memory and checks it; does nothing with another.
  void hold();
  /// Any thread may. Not of a deflated array that is not held.
  void read(std::uint64_t offset, std::size_t num_bytes, void* to) const;
  /// All bytes in order, in pieces of whole elements, and whether they are those that the file's checksum is of.
  using TakePiece = std::function<void(std::uint64_t first_element, std::span<const std::byte> bytes)>;
  void for_each_piece(const TakePiece& take) const;

 private:
  std::shared_ptr<const ArrayFile> file_;
  StoredArray array_;
  std::string name_;
  std::unique_ptr<std::byte[]> held_;
};

/// Opens a file and lists what it holds.
struct OpenArrayFile {
  std::shared_ptr<const ArrayFile> file;
  std::vector<StoredArray> arrays;
};
OpenArrayFile open_array_file(const std::string& path);

}  // namespace trainer
