#include <array>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/error_statistics.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// A cache line each, so that threads do not share any.
struct alignas(64) ErrorPart {
  double sums[num_error_statistics] = {};
};

TRAINER_SIMD void sum_errors(const float* prediction, const float* targets, std::int64_t begin, std::int64_t end,
                             double* sums) {
  double absolute = 0, squared = 0, of_targets = 0, of_squares = 0;
#pragma omp simd reduction(+ : absolute, squared, of_targets, of_squares)
  for (std::int64_t i = begin; i < end; ++i) {
    const auto target = static_cast<double>(targets[i]);
    const double error = static_cast<double>(prediction[i]) - target;
    absolute += error < 0 ? -error : error;
    squared += error * error;
    of_targets += target;
    of_squares += target * target;
  }
  sums[absolute_error_sum] = absolute;
  sums[squared_error_sum] = squared;
  sums[target_sum] = of_targets;
  sums[squared_target_sum] = of_squares;
  sums[num_error_numbers] = static_cast<double>(end - begin);
}

RowParts error_parts(const Op& op) { return row_parts(op.inputs[0].num_elements(), 4096); }

std::int64_t error_statistics_workspace_bytes(const Op& op, CpuContext&) {
  return error_parts(op).num_parts * static_cast<std::int64_t>(sizeof(ErrorPart));
}

std::unique_ptr<CpuKernel> make_error_statistics_kernel(const Op& op, CpuContext& context) {
  return make_kernel(
      [parts = error_parts(op), threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
        auto* const of_parts = static_cast<ErrorPart*>(addresses.workspace);
        parallel_tasks(parts.rows <= serial_elements ? 1 : threads, parts.num_parts, [&](std::int64_t part) {
          sum_errors(input(addresses, 0), input(addresses, 1), parts.begin(part), parts.end(part), of_parts[part].sums);
        });
        auto* const sums = modified_input<double>(addresses, 2);
        for (std::int64_t part = 0; part < parts.num_parts; ++part)
          for (int i = 0; i < num_error_statistics; ++i) sums[i] += of_parts[part].sums[i];
      });
}

}  // namespace

const CpuOp error_statistics_on_cpu = {make_error_statistics_kernel, cut_nowhere, error_statistics_workspace_bytes};

}  // namespace trainer
