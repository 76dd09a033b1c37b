#include <algorithm>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/tensor_blocks.h"
#include "engine/simd.h"

namespace trainer {

namespace {

TRAINER_SIMD void average_part(const float* weight, float* average, float share, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) average[i] += share * (weight[i] - average[i]);
}

std::unique_ptr<CpuKernel> make_average_weights_kernel(const Op& op, CpuContext& context) {
  std::vector<TensorBlock> blocks;
  for (std::size_t i = 0; i < op.inputs.size(); i += 2) append_tensor_blocks(op.inputs[i], i, blocks);
  return make_kernel([blocks = std::move(blocks), threads = context.num_threads](const OperandAddresses& addresses,
                                                                                 const StepScalars& scalars) {
    const auto share = static_cast<float>(scalars.average_share);
    if (share == 0) return;
    parallel_tasks(blocks.size() < 2 ? 1 : threads, static_cast<std::int64_t>(blocks.size()), [&](std::int64_t i) {
      const TensorBlock& block = blocks[static_cast<std::size_t>(i)];
      const auto at = static_cast<int>(block.tensor);
      const float* const weight = input(addresses, at) + block.begin;
      float* const average = modified_input(addresses, at + 1) + block.begin;
      // Exactly the weights, whatever the averages held.
      if (share == 1)
        std::copy_n(weight, block.end - block.begin, average);
      else
        average_part(weight, average, share, block.end - block.begin);
    });
  });
}

}  // namespace

const CpuOp average_weights_on_cpu = {make_average_weights_kernel, cut_nowhere};

}  // namespace trainer
