#include <algorithm>
#include <cstring>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/half.h"

namespace trainer {

namespace {

constexpr std::int64_t summed_columns = 64;  // whose sums are held in registers

std::unique_ptr<CpuKernel> make_repeat_row_kernel(const Op& op, CpuContext& context) {
  const TensorType& y = op.outputs[0];
  return make_kernel([rows = y.shape[0], row_bytes = static_cast<std::size_t>(op.inputs[0].num_bytes()),
                      threads = y.num_elements() <= serial_elements ? 1 : context.num_threads](
                         const OperandAddresses& addresses, const StepScalars&) {
    parallel_tasks(threads, rows, [&](std::int64_t row) {
      std::memcpy(output<std::byte>(addresses, 0) + static_cast<std::size_t>(row) * row_bytes, addresses.inputs[0],
                  row_bytes);
    });
  });
}

std::unique_ptr<CpuKernel> make_sum_rows_kernel(const Op& op, CpuContext& context) {
  const TensorType& dy = op.inputs[0];
  return make_kernel([rows = dy.shape[0], columns = dy.shape[1], type = dy.dtype,
                      threads = dy.num_elements() <= serial_elements ? 1 : context.num_threads](
                         const OperandAddresses& addresses, const StepScalars&) {
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(type));
    const std::int64_t num_groups = (columns + summed_columns - 1) / summed_columns;
    parallel_tasks(threads, num_groups, [&](std::int64_t group) {
      const std::int64_t first = group * summed_columns, count = std::min(summed_columns, columns - first);
      double sums[summed_columns] = {};
      float values[summed_columns];
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::byte* const from = input<std::byte>(addresses, 0) + (row * columns + first) * bytes;
        if (type == DType::f32)
          std::memcpy(values, from, static_cast<std::size_t>(count) * sizeof(float));
        else
          widen(type, from, values, count);
        for (std::int64_t c = 0; c < count; ++c) sums[c] += static_cast<double>(values[c]);
      }
      for (std::int64_t c = 0; c < count; ++c) values[c] = static_cast<float>(sums[c]);
      std::byte* const to = output<std::byte>(addresses, 0) + first * bytes;
      if (type == DType::f32)
        std::memcpy(to, values, static_cast<std::size_t>(count) * sizeof(float));
      else
        narrow(type, values, to, count);
    });
  });
}

}  // namespace

const CpuOp repeat_row_on_cpu = {make_repeat_row_kernel, takes_16_bit};
const CpuOp sum_rows_on_cpu = {make_sum_rows_kernel, takes_16_bit};

}  // namespace trainer
