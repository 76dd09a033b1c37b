#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// Some channels of a tensor (rows, row_channels) of rows one behind the other: those from `first` on.
struct ChannelRange {
  std::int64_t row_channels = 1, first = 0;
};

/// Copies `channels` channels of each of `rows` rows from x, where they are `from`, to y, where they are `to`; the rest
/// of y stays as it is. Bytes: what is copied twice. FLOPs: none.
void copy_channels(DType type, const void* x, const ChannelRange& from, void* y, const ChannelRange& to,
                   std::int64_t rows, std::int64_t channels, Stream stream);

/// y (rows, to.row_channels) = the `channels` channels of x's rows where `to` says, 0 elsewhere. Bytes: x and y once.
/// FLOPs: none.
void expand_channels(DType type, const void* x, void* y, const ChannelRange& to, std::int64_t rows,
                     std::int64_t channels, Stream stream);

}  // namespace trainer::cuda
