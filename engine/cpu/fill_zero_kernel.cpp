#include <cstring>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/tensor_blocks.h"

namespace trainer {

namespace {

std::unique_ptr<CpuKernel> make_fill_zero_kernel(const Op& op, CpuContext& context) {
  std::vector<TensorBlock> blocks;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    append_tensor_blocks(op.inputs[i], i, blocks);
    sizes.push_back(static_cast<std::int64_t>(size_of(op.inputs[i].dtype)));
  }
  return make_kernel([blocks = std::move(blocks), sizes = std::move(sizes), threads = context.num_threads](
                         const OperandAddresses& addresses, const StepScalars&) {
    parallel_tasks(blocks.size() < 2 ? 1 : threads, static_cast<std::int64_t>(blocks.size()), [&](std::int64_t i) {
      const TensorBlock& block = blocks[static_cast<std::size_t>(i)];
      const std::int64_t size = sizes[block.tensor];
      auto* const tensor = modified_input<std::byte>(addresses, static_cast<int>(block.tensor));
      std::memset(tensor + block.begin * size, 0, static_cast<std::size_t>((block.end - block.begin) * size));
    });
  });
}

}  // namespace

const CpuOp fill_zero_on_cpu = {make_fill_zero_kernel, takes_16_bit};

}  // namespace trainer
