#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/device/step_scalars.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y[i] = x[i] · scale where the upper 24 bits of PhiloxStream{seed, philox_stream, pass}.word(first_sample · of_sample
/// + i) reach `threshold`, else 0, over `count` elements, `of_sample` of each sample; seed, pass and first_sample are
/// read from `scalars`, in device memory. y may be x. Forward and
/// backward alike. Bytes: x and y once. FLOPs: 1 an element, and some 30 integer operations.
void dropout(DType type, std::uint32_t philox_stream, std::uint32_t threshold, float scale, const StepScalars* scalars,
             const void* x, void* y, std::int64_t of_sample, std::int64_t count, Stream stream);

/// What x has of a tensor: of each row's `all_columns` so many from `first_column` on, and rows from `first_row` on, of
/// which a sample has `sample_rows`.
struct DropoutPart {
  std::int64_t own_columns = 0, all_columns = 0, first_column = 0, sample_rows = 0, first_row = 0;
};

/// The same of some columns or rows, whose elements have the words of the whole tensor's. Bytes: x and y once. FLOPs: 1
/// an element, and some 30 integer operations for four.
void dropout_of_part(DType type, std::uint32_t philox_stream, std::uint32_t threshold, float scale,
                     const StepScalars* scalars, const void* x, void* y, const DropoutPart& part, std::int64_t rows,
                     Stream stream);

}  // namespace trainer::cuda
