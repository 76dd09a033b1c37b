#pragma once

#include <algorithm>
#include <cstdint>

namespace trainer::cuda {

/// The rows of a reduction over (rows, channels) to channels, cut into parts that blocks of threads reduce on their
/// own. Depends on the shape alone, so that the bits do not depend on the device.
struct RowParts {
  std::int64_t rows_per_part = 1, num_parts = 1;
};

constexpr RowParts parts_of_rows(std::int64_t rows, std::int64_t least_rows_per_part, std::int64_t most_parts) {
  const std::int64_t rows_per_part = std::max(least_rows_per_part, (rows + most_parts - 1) / most_parts);
  return {rows_per_part, std::max<std::int64_t>(1, (rows + rows_per_part - 1) / rows_per_part)};
}

/// For blocks of 128 channels: at most about a thousand, enough to fill any GPU, few enough that the second pass is
/// short.
constexpr std::int64_t most_row_parts(std::int64_t channels) {
  constexpr std::int64_t block_channels = 128, most_blocks = 1024;
  return std::max<std::int64_t>(1, most_blocks / ((channels + block_channels - 1) / block_channels));
}

/// Parts large enough that each of a block's 256 threads has 32 numbers to read.
constexpr RowParts row_parts(std::int64_t rows, std::int64_t channels) {
  constexpr std::int64_t block_channels = 128, block_elements = 8192;
  const std::int64_t width = std::min(channels, block_channels);
  return parts_of_rows(rows, (block_elements + width - 1) / width, most_row_parts(channels));
}

/// For blocks that each keep whole rows: at least 256 where there are rows enough, which fill most GPUs twice, but of
/// 16 rows or more, so that the pairs of sums have at most half a byte for each element.
constexpr RowParts whole_row_parts(std::int64_t rows, std::int64_t channels) {
  constexpr std::int64_t least_rows_per_part = 16, fewest_blocks = 256;
  return parts_of_rows(rows, least_rows_per_part, std::max(fewest_blocks, most_row_parts(channels)));
}

}  // namespace trainer::cuda
