#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/cpu/kernels.h"
#include "engine/cpu/no_row.h"
#include "engine/cpu/parallel.h"
#include "engine/half.h"
#include "engine/simd.h"

namespace trainer {

namespace {

std::int64_t bytes_of(DType type, std::int64_t count) { return count * static_cast<std::int64_t>(size_of(type)); }

// Note [Rows of an embedding]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Which rows of dW have gradients is known once the indices are read, so a block of dW looks at all of them: some rows
// times some columns, whose sums in f32 fit a core's first cache. It starts at 0, takes the rows of dy that are its own
// in the order of their places, and is written once, zeros included. So dW is as if one thread had added up everything
// in order, without scratch, whatever the blocks are and whoever has them; and 16-bit gradients are rounded once. Where
// it adds, rows without a gradient are left alone.
// The indices are read once for each block, a comparison for 32 KiB of the table and place, which is little beside
// writing it; where the table is small they are few.

constexpr std::int64_t table_block_rows = 64, table_block_columns = 128;
constexpr std::int64_t looked_at_once = 64;  // indices

/// How many of `count` indices lie in [first, last).
TRAINER_SIMD std::int64_t num_within(const std::int32_t* indices, std::int64_t count, std::int32_t first,
                                     std::int32_t last) {
  std::int32_t within = 0;
#pragma omp simd reduction(+ : within)
  for (std::int64_t i = 0; i < count; ++i) within += indices[i] >= first && indices[i] < last ? 1 : 0;
  return within;
}

TRAINER_SIMD void add_to_row(const float* gradient, float* sums, std::int64_t count) {
#pragma omp simd
  for (std::int64_t c = 0; c < count; ++c) sums[c] += gradient[c];
}

struct TableGradient {
  std::int64_t places, first, num, dim;
  DType of_output, of_table;
  bool adds;

  std::int64_t row_blocks() const { return (num + table_block_rows - 1) / table_block_rows; }
  std::int64_t column_blocks() const { return (dim + table_block_columns - 1) / table_block_columns; }

  void run_block(std::int64_t block, const std::byte* dy, const std::int32_t* indices, std::byte* table) const {
    const std::int64_t first_row = block % row_blocks() * table_block_rows,
                       rows = std::min(table_block_rows, num - first_row);
    const std::int64_t first_column = block / row_blocks() * table_block_columns;
    const std::int64_t columns = std::min(table_block_columns, dim - first_column);
    alignas(64) float sums[table_block_rows][table_block_columns];
    alignas(64) float widened[table_block_columns];
    bool has_gradient[table_block_rows] = {};
    const auto first_index = static_cast<std::int32_t>(first + first_row);
    const auto last_index = static_cast<std::int32_t>(first + first_row + rows);
    for (std::int64_t from = 0; from < places; from += looked_at_once) {
      const std::int64_t to = std::min(places, from + looked_at_once);
      if (num_within(indices + from, to - from, first_index, last_index) == 0) continue;
      for (std::int64_t place = from; place < to; ++place) {
        if (indices[place] < first_index || indices[place] >= last_index) continue;
        const std::int32_t row = indices[place] - first_index;
        const std::byte* const gradient = dy + bytes_of(of_output, place * dim + first_column);
        float* const sum = sums[row];
        if (!has_gradient[row]) std::fill_n(sum, columns, 0.0F);
        has_gradient[row] = true;
        if (of_output != DType::f32) widen(of_output, gradient, widened, columns);
        add_to_row(of_output == DType::f32 ? reinterpret_cast<const float*>(gradient) : widened, sum, columns);
      }
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      std::byte* const to = table + bytes_of(of_table, (first_row + row) * dim + first_column);
      if (!has_gradient[row]) {
        if (!adds) std::memset(to, 0, static_cast<std::size_t>(bytes_of(of_table, columns)));
        continue;
      }
      if (adds) {
        widen(of_table, to, widened, columns);
        add_to_row(widened, sums[row], columns);
      }
      narrow(of_table, sums[row], to, columns);
    }
  }
};

std::unique_ptr<CpuKernel> make_embedding_kernel(const Op& op, CpuContext& context) {
  const TensorType &weight = op.inputs[1], &y = op.outputs[0];
  const std::int64_t dim = weight.shape[1];
  const RowParts parts =
      row_parts(op.inputs[0].num_elements(), std::max<std::int64_t>(1, 8192 / dim), op.inputs[0].num_elements());
  return make_kernel([own = embedding_rows(op), dim, parts, from_type = weight.dtype, to_type = y.dtype,
                      threads = y.num_elements() <= serial_elements ? 1 : context.num_threads](
                         const OperandAddresses& addresses, const StepScalars&) {
    const auto* const indices = input<std::int32_t>(addresses, 0);
    const auto* const rows = input<std::byte>(addresses, 1);
    auto* const to = output<std::byte>(addresses, 0);
    parallel_tasks(threads, parts.num_parts, [&](std::int64_t part) {
      for (std::int64_t place = parts.begin(part); place < parts.end(part); ++place) {
        const std::int64_t index = indices[place];
        std::byte* const row = to + bytes_of(to_type, place * dim);
        if (index < 0 || index >= own.all) {
          write_no_row(to_type, row, dim);
        } else if (index < own.first || index >= own.first + own.num) {
          std::memset(row, 0, static_cast<std::size_t>(bytes_of(to_type, dim)));
        } else if (from_type == to_type) {
          std::memcpy(row, rows + bytes_of(from_type, (index - own.first) * dim),
                      static_cast<std::size_t>(bytes_of(to_type, dim)));
        } else {
          require_internal(from_type == DType::f32, "an embedding narrows the rows of f32 alone");
          narrow(to_type, reinterpret_cast<const float*>(rows) + (index - own.first) * dim, row, dim);
        }
      }
    });
  });
}

std::unique_ptr<CpuKernel> make_embedding_backward_kernel(const Op& op, CpuContext& context) {
  const bool adds = attributes_of<EmbeddingAttributes>(op).adds;
  const TensorType& table = adds ? op.inputs[2] : op.outputs[0];
  const EmbeddingRows own = embedding_rows(op);
  const TableGradient gradient{op.inputs[1].num_elements(), own.first,   own.num, table.shape[1],
                               op.inputs[0].dtype,          table.dtype, adds};
  const std::int64_t elements = table.num_elements() + op.inputs[0].num_elements();
  return make_kernel([gradient, threads = elements <= serial_elements ? 1 : context.num_threads](
                         const OperandAddresses& addresses, const StepScalars&) {
    auto* const to = gradient.adds ? modified_input<std::byte>(addresses, 2) : output<std::byte>(addresses, 0);
    parallel_tasks(threads, gradient.row_blocks() * gradient.column_blocks(), [&](std::int64_t block) {
      gradient.run_block(block, input<std::byte>(addresses, 0), input<std::int32_t>(addresses, 1), to);
    });
  });
}

}  // namespace

const CpuOp embedding_on_cpu = {make_embedding_kernel, takes_16_bit};
const CpuOp embedding_backward_on_cpu = {make_embedding_backward_kernel, takes_16_bit};

}  // namespace trainer
