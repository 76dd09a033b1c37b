#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/arrays/array_element.h"
#include "datasets/arrays/array_file.h"
#include "engine/shape.h"

namespace trainer {

/// An array as its file has it: C order, little-endian, without gaps.
struct StoredArray {
  std::string name;  ///< in its file; empty where the file is one array
  std::string type;  ///< "uint8 (60000, 28, 28)"
  /// Why it cannot be read, with what to do; empty of one that can, which alone has what follows.
  std::string refusal;
  ArrayElement element = ArrayElement::u8;
  Shape shape;                       ///< no dimension is 0
  std::uint64_t begin = 0;           ///< of its elements: in the file; of a deflated one, in what is unpacked
  std::uint64_t deflated_begin = 0;  ///< of a deflated one, in the file
  std::uint64_t deflated_bytes = 0;  ///< there; 0 of others
  /// CRC-32 of all that is unpacked; of members of .npz files.
  std::optional<std::uint32_t> crc32;
  std::uint64_t header_bytes = 0;  ///< in front of the elements, which crc32 counts too

  bool is_deflated() const { return deflated_bytes > 0; }
  std::uint64_t num_bytes() const {
    return static_cast<std::uint64_t>(shape.num_elements()) * static_cast<std::uint64_t>(size_of(element));
  }
};

/// The arrays of a .npy, .npz or safetensors file, told by its first bytes and not by its name. An array that cannot be
/// read is listed with why; a file that is damaged is a DataError.
std::vector<StoredArray> list_stored_arrays(const ArrayFile& file);

/// "(3, 28, 28)", as NumPy writes it.
std::string numpy_text(const Shape& shape);

}  // namespace trainer
