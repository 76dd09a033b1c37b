#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/report/memory/memory_json.h"

namespace trainer {

// Note [Columns of a page]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// What a page tells by the thousand, such as blocks and steps, stands in it as columns: one behind the other in one
// string of bytes, which the page holds as base64 of gzip and assets/columns.js reads. The page's JSON names a column
// by where it begins and how many values it has:
//   {"integers": AT, "count": N}  the first and then what each adds to the one before it, as zigzag varints
//                                 (protobuf's: 7 bits a byte, lowest first), of less than 2^53
//   {"numbers": AT, "count": N}   8 bytes each: IEEE 754, little-endian
//   {"texts": AT, "count": N}     an integers column of their lengths in bytes, then UTF-8, one behind the other

/// Columns of a page, as they are added.
class PageColumns {
 public:
  Json integers(std::span<const std::int64_t> values);
  Json numbers(std::span<const double> values);
  Json texts(std::span<const std::string> values);

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace trainer
