#pragma once

#include <algorithm>
#include <cstdint>

namespace trainer::cuda {

/// The rows of a reduction over (rows, channels) to channels, cut into parts that blocks of threads reduce on their
/// own. Depends on the shape alone, so that the bits do not depend on the device.
struct RowParts {
  std::int64_t rows_per_part = 1, num_parts = 1;
};

/// Parts large enough that each of a block's 256 threads has 32 numbers to read, and at most about a thousand blocks:
/// enough to fill any GPU, few enough that the second pass is short.
constexpr RowParts row_parts(std::int64_t rows, std::int64_t channels) {
  constexpr std::int64_t block_channels = 128, block_elements = 8192, most_blocks = 1024;
  const std::int64_t num_tiles = (channels + block_channels - 1) / block_channels;
  const std::int64_t most_parts = std::max<std::int64_t>(1, most_blocks / num_tiles);
  const std::int64_t width = std::min(channels, block_channels);
  const std::int64_t rows_per_part =
      std::max((block_elements + width - 1) / width, (rows + most_parts - 1) / most_parts);
  return {rows_per_part, std::max<std::int64_t>(1, (rows + rows_per_part - 1) / rows_per_part)};
}

}  // namespace trainer::cuda
