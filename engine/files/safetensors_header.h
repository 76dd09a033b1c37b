#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/errors.h"
#include "engine/shape.h"

namespace trainer {

/// A tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< as the format calls it: "F32", "BOOL"
  Shape shape;
  std::uint64_t begin = 0;  ///< of its bytes, from the start of the file
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of the data
  std::map<std::string, std::string> metadata;
};

inline constexpr std::uint64_t most_safetensors_header_bytes = 100'000'000;

/// Reads so many bytes from an offset of the file; false where it cannot.
using ReadAtOffset = std::function<bool(std::uint64_t offset, std::uint64_t num_bytes, void* to)>;

/// The header of a safetensors file of `file_bytes`, checked whole: at most 100 MB; known dtypes; at most
/// Shape::max_rank dimensions; sizes that agree with shapes; ranges that cover the data exactly, without holes,
/// overlaps or duplicates. Nothing is allocated by what a header claims before it is checked. Throws DataError that
/// names the file and what is wrong. Layout: u64 header length, JSON header, then the tensors
/// (github.com/huggingface/safetensors).
SafetensorsHeader read_safetensors_header(const std::string& path, std::uint64_t file_bytes, const ReadAtOffset& read);

/// "PATH: not a usable safetensors file: …"
DataError unusable_safetensors(const std::string& path, std::string_view what);

}  // namespace trainer
