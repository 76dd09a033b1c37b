#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "datasets/input_file.h"
#include "engine/errors.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

/// A file, packed or not, in pieces of a size that the buffers' sizes are no multiples of.
void read_fuzzed_gzip(std::string_view input) {
  InputFile file("fuzzed", std::as_bytes(std::span(input)));
  const std::uint64_t largest_size = file.largest_size();
  std::array<std::byte, 997> piece{};
  while (file.read(piece.data(), piece.size()) == piece.size()) {
  }
  require_internal(file.offset() <= largest_size, "a file unpacks to no more than its largest size");
  file.expect_end();
}

}  // namespace trainer
