#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/arrays/array_file.h"

namespace trainer {

/// A member of a ZIP archive.
struct ZipEntry {
  std::string name;
  bool deflated = false;           ///< else stored as it is
  std::uint64_t begin = 0;         ///< of its bytes in the file
  std::uint64_t stored_bytes = 0;  ///< there
  std::uint64_t num_bytes = 0;     ///< once unpacked
  std::uint32_t crc32 = 0;         ///< of what is unpacked
};

/// The members of a ZIP archive, as its central directory and their own headers have them, ZIP64 included
/// (APPNOTE.TXT 6.3.10). Refused, by DataError: an archive of several disks, members that are encrypted, packed by
/// anything but deflate, lie outside the file or claim more bytes than deflate makes of theirs, and a name that occurs
/// twice. Names are never used as paths.
std::vector<ZipEntry> read_zip_directory(const ArrayFile& file);

}  // namespace trainer
