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

std::unique_ptr<CpuKernel> make_drop_kernel(const Op& op, const CpuContext& context) {
  const auto& attributes = attributes_of<DropoutAttributes>(op);
  return make_kernel([rule = dropout_rule(attributes.p), stream = attributes.stream, type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      of_sample = op.inputs[0].num_elements() / op.inputs[0].shape[0],
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars& scalars) {
    const PhiloxStream philox{scalars.seed, stream, scalars.pass};
    const std::int64_t before = scalars.first_sample * of_sample;
    for_elements<1>(type, threads, count, {addresses.inputs[0]}, addresses.outputs[0],
                    [&](const auto& x, float* y, std::int64_t first, std::int64_t num_elements) {
                      drop_loop(x[0], y, before + first, num_elements, philox, rule.threshold, rule.scale);
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
