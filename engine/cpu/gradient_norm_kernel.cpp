#include <cmath>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/simd.h"
#include "engine/cpu/tensor_blocks.h"

namespace trainer {

namespace {

TRAINER_SIMD double sum_squares(const float* x, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace

/// One sum a block.
std::int64_t gradient_norm_workspace_bytes(const Op& op) {
  std::int64_t num_blocks = 0;
  for (const TensorType& gradient : op.inputs) num_blocks += num_tensor_blocks(gradient);
  return num_blocks * static_cast<std::int64_t>(sizeof(double));
}

std::unique_ptr<CpuKernel> make_gradient_norm_kernel(const Op& op, CpuContext& context) {
  std::vector<TensorBlock> blocks;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) append_tensor_blocks(op.inputs[i], i, blocks);
  return make_kernel([blocks = std::move(blocks), clip_norm = attributes_of<GradientNormAttributes>(op).clip_norm,
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    auto* const sums = static_cast<double*>(addresses.workspace);
    const auto num_blocks = static_cast<std::int64_t>(blocks.size());
    parallel_tasks(num_blocks < 2 ? 1 : threads, num_blocks, [&](std::int64_t i) {
      const TensorBlock& block = blocks[static_cast<std::size_t>(i)];
      sums[i] = sum_squares(input(addresses, static_cast<int>(block.tensor)), block.begin, block.end);
    });
    double sum = 0;
    for (std::int64_t i = 0; i < num_blocks; ++i) sum += sums[i];
    const double norm = std::sqrt(sum);
    const double factor = clip_norm / (norm + 1e-6);
    float* const result = output(addresses, 0);
    result[0] = static_cast<float>(norm);
    result[1] = factor > 1 ? 1.0F : static_cast<float>(factor);  // a NaN norm makes the factor NaN
  });
}

}  // namespace trainer
