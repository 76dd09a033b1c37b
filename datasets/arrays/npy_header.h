#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// What stands in front of the elements of a .npy array.
struct NpyHeader {
  std::string descr;  ///< the dtype: "<f4"; of a structured one the text of its list
  bool fortran_order = false;
  std::vector<std::uint64_t> dims;
  std::size_t num_bytes = 0;  ///< of the header
};

/// The next bytes of an array's file; throws where there are none.
using ReadNext = std::function<void(void* to, std::size_t num_bytes)>;

/// Reads the header of format 1.0, 2.0 or 3.0 (numpy.lib.format): magic, version, length and a Python literal, a dict
/// of descr, fortran_order and shape and of nothing else, which is at most 64 KiB. Nothing of it is evaluated. Throws
/// DataError that begins with `source`.
NpyHeader read_npy_header(std::string_view source, const ReadNext& read);

inline constexpr std::string_view npy_magic = "\x93NUMPY";

}  // namespace trainer
