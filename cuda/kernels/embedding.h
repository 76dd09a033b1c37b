#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// `places` indices i32 into a table of `dim` columns, of whose `all` rows `num` from `first` on are here.
struct EmbeddingShape {
  std::int64_t places = 0, first = 0, num = 0, all = 0, dim = 0;
};

/// y (places, dim) of `type` = the rows of `table` at `indices`; 0 where a row is not here, NaN where it is none of
/// all. `table` is of `type` or f32. Bytes: y and as many of the table once.
void embedding_forward(DType type, DType table_type, const std::int32_t* indices, const void* table, void* y,
                       const EmbeddingShape& shape, Stream stream);

/// dtable[i] = the sum of dy at the places of index i, in their order and in f32, and 0 where there is none; other
/// indices are left out. `adds`: to what is there. Bytes: dy and dtable once, or what dtable has of rows with a
/// gradient twice, and the indices from the cache for each block of dtable. FLOPs: 1 an element of dy.
void embedding_backward(DType type, DType table_type, const void* dy, const std::int32_t* indices, void* dtable,
                        bool adds, const EmbeddingShape& shape, Stream stream);

/// x (samples, places, channels) and a table of `length` rows, at least `places`.
struct PositionEmbeddingShape {
  std::int64_t samples = 0, places = 0, channels = 0, length = 0;
};

/// y = x + the rows of `table`, f32; y may be x. Which row, `indices` (samples, places) say, NaN where one is none of
/// them; null: that of the place. Bytes: x and y once. FLOPs: 1 an element.
void position_embedding_forward(DType type, const void* x, const float* table, const std::int32_t* indices, void* y,
                                const PositionEmbeddingShape& shape, Stream stream);
/// dtable = the sums of dy over the samples, in their order and in f32, and 0 from `places` on. Bytes: dy and dtable
/// once. FLOPs: 1 an element of dy.
void position_embedding_backward(DType type, const void* dy, float* dtable, const PositionEmbeddingShape& shape,
                                 Stream stream);

}  // namespace trainer::cuda
