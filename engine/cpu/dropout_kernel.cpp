#include <algorithm>

#include "engine/cpu/element_loop.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/philox_block.h"
#include "engine/philox.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// y = kept ? x · scale : 0 for `count` elements, of which the first draws the number of element `first`. `threshold`
/// is what the upper 24 bits of an element's word must reach to keep it.
TRAINER_SIMD void drop_loop(const float* x, float* y, std::int64_t first, std::int64_t count, PhiloxStream stream,
                            std::uint32_t threshold, float scale) {
  for (std::int64_t begin = 0, num_drawn = 0; begin < count; begin += num_drawn) {
    std::uint32_t words[philox_lane_words];
    draw_philox_words(stream, static_cast<std::uint64_t>(first + begin) / 4, words);
    const std::int64_t skipped = (first + begin) % 4, drawn = philox_lane_words - skipped;
    num_drawn = count - begin < drawn ? count - begin : drawn;
#pragma omp simd
    for (std::int64_t i = 0; i < num_drawn; ++i) {
      const float kept = x[begin + i] * scale;
      y[begin + i] = (words[skipped + i] >> 8) >= threshold ? kept : 0;
    }
  }
}

/// Which columns of a row are here.
struct ColumnRange {
  std::int64_t own, all, first;
};

/// Elements from `first` on, of some columns of each row.
void drop_columns(const float* x, float* y, std::int64_t first, std::int64_t count, const ColumnRange& columns,
                  std::int64_t rows_before, const PhiloxStream& philox, const DropoutRule& rule) {
  for (std::int64_t done = 0, num_done = 0; done < count; done += num_done) {
    const std::int64_t row = (first + done) / columns.own, column = (first + done) % columns.own;
    num_done = std::min(columns.own - column, count - done);
    drop_loop(x + done, y + done, (rows_before + row) * columns.all + columns.first + column, num_done, philox,
              rule.threshold, rule.scale);
  }
}

std::unique_ptr<CpuKernel> make_drop_kernel(const Op& op, const CpuContext& context) {
  const auto& attributes = attributes_of<DropoutAttributes>(op);
  const TensorType& x_type = op.inputs[0];
  const bool has_all = attributes.all_columns == 0, has_rows = attributes.sample_rows > 0;
  // With all columns of all rows a sample is one row.
  const std::int64_t own = has_all && !has_rows ? x_type.num_elements() / x_type.shape[0] : x_type.shape[-1];
  const std::int64_t sample_rows = has_rows ? attributes.sample_rows : x_type.num_elements() / x_type.shape[0] / own;
  return make_kernel([rule = dropout_rule(attributes.p), stream = attributes.stream, type = x_type.dtype,
                      count = x_type.num_elements(), sample_rows, first_row = attributes.first_row,
                      columns = ColumnRange{own, has_all ? own : attributes.all_columns, attributes.first_column},
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars& scalars) {
    const PhiloxStream philox{scalars.seed, stream, scalars.pass};
    const std::int64_t rows_before = scalars.first_sample * sample_rows + first_row;
    for_elements<1>(type, threads, count, {addresses.inputs[0]}, addresses.outputs[0],
                    [&](const auto& x, float* y, std::int64_t first, std::int64_t num_elements) {
                      if (columns.own == columns.all)
                        drop_loop(x[0], y, rows_before * columns.all + first, num_elements, philox, rule.threshold,
                                  rule.scale);
                      else
                        drop_columns(x[0], y, first, num_elements, columns, rows_before, philox, rule);
                    });
  });
}

std::unique_ptr<CpuKernel> make_dropout_kernel(const Op& op, CpuContext& context) {
  return make_drop_kernel(op, context);
}
std::unique_ptr<CpuKernel> make_dropout_backward_kernel(const Op& op, CpuContext& context) {
  return make_drop_kernel(op, context);
}

}  // namespace

const CpuOp dropout_on_cpu = {make_dropout_kernel, takes_16_bit};
const CpuOp dropout_backward_on_cpu = {make_dropout_backward_kernel, takes_16_bit};

}  // namespace trainer
