#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "datasets/arrays/array_file.h"

namespace trainer {

/// Deflated bytes of a file, unpacked from front to back.
class InflatedBytes {
 public:
  /// `stored_bytes` from `begin` on; both lie in the file, which outlives the object.
  InflatedBytes(const ArrayFile& file, std::uint64_t begin, std::uint64_t stored_bytes);
  ~InflatedBytes();
  InflatedBytes(const InflatedBytes&) = delete;
  InflatedBytes& operator=(const InflatedBytes&) = delete;

  /// The next bytes; DataError where they are damaged or there are fewer.
  void read(void* to, std::size_t num_bytes);

 private:
  struct Stream;

  const ArrayFile& file_;
  std::uint64_t next_, end_;  ///< of what has not been taken from the file
  std::uint64_t num_unpacked_ = 0;
  std::vector<unsigned char> buffer_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace trainer
