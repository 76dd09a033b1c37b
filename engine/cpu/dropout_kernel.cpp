#include <algorithm>

#include "engine/cpu/element_loop.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/simd.h"
#include "engine/philox.h"

namespace trainer {

namespace {

constexpr std::int64_t block_elements = 64;
constexpr std::int64_t num_counters = block_elements / 4;  // side by side they fill a vector of 512 bits

/// The words of elements [first, first + block_elements) of `stream`, first a multiple of 4: PhiloxStream::words with
/// its state turned inside out, one array a word, so that it vectorises.
TRAINER_SIMD_INLINE void draw_block(const PhiloxStream& stream, std::int64_t first, std::uint32_t* words) {
  std::uint32_t x0[num_counters], x1[num_counters], x2[num_counters], x3[num_counters];
  const std::uint64_t block = static_cast<std::uint64_t>(first) / 4;
#pragma omp simd
  for (std::int64_t i = 0; i < num_counters; ++i) {
    const std::uint64_t counter = block + static_cast<std::uint64_t>(i);
    x0[i] = static_cast<std::uint32_t>(counter);
    x1[i] = static_cast<std::uint32_t>(counter >> 32);
    x2[i] = stream.stream;
    x3[i] = stream.step;
  }
  auto key0 = static_cast<std::uint32_t>(stream.seed);
  auto key1 = static_cast<std::uint32_t>(stream.seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (std::int64_t i = 0; i < num_counters; ++i) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * x0[i];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * x2[i];
      x0[i] = static_cast<std::uint32_t>(product1 >> 32) ^ x1[i] ^ key0;
      x1[i] = static_cast<std::uint32_t>(product1);
      x2[i] = static_cast<std::uint32_t>(product0 >> 32) ^ x3[i] ^ key1;
      x3[i] = static_cast<std::uint32_t>(product0);
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  for (std::int64_t i = 0; i < num_counters; ++i) {
    words[4 * i] = x0[i];
    words[4 * i + 1] = x1[i];
    words[4 * i + 2] = x2[i];
    words[4 * i + 3] = x3[i];
  }
}

/// y = kept ? x · scale : 0 for `count` elements from element `first` on, a multiple of 4. `threshold` is what the
/// upper 24 bits of an element's word must reach to keep it.
TRAINER_SIMD void drop_loop(const float* x, float* y, std::int64_t first, std::int64_t count, PhiloxStream stream,
                            std::uint32_t threshold, float scale) {
  for (std::int64_t begin = 0; begin < count; begin += block_elements) {
    std::uint32_t words[block_elements];
    draw_block(stream, first + begin, words);
    const std::int64_t num_drawn = count - begin < block_elements ? count - begin : block_elements;
#pragma omp simd
    for (std::int64_t i = 0; i < num_drawn; ++i) {
      const float kept = x[begin + i] * scale;
      y[begin + i] = (words[i] >> 8) >= threshold ? kept : 0;
    }
  }
}

std::unique_ptr<CpuKernel> make_drop_kernel(const Op& op, const CpuContext& context) {
  const auto& attributes = attributes_of<DropoutAttributes>(op);
  // uniform(i) ≥ p compares word / 2^24 with p in f32, where p = 1 drops everything.
  const float p = static_cast<float>(attributes.p);
  auto threshold = static_cast<std::uint32_t>(std::clamp(static_cast<double>(p) * 16777216.0, 0.0, 16777216.0));
  while (threshold < 16777216U && static_cast<float>(threshold) * (1.0F / 16777216.0F) < p) ++threshold;
  const float scale = p < 1 ? static_cast<float>(1 / (1 - attributes.p)) : 0;
  return make_kernel([threshold, scale, stream = attributes.stream, type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars& scalars) {
    const PhiloxStream philox{scalars.seed, stream, scalars.pass};
    for_elements<1>(type, threads, count, {addresses.inputs[0]}, addresses.outputs[0],
                    [&](const auto& x, float* y, std::int64_t first, std::int64_t num_elements) {
                      drop_loop(x[0], y, first, num_elements, philox, threshold, scale);
                    });
  });
}

}  // namespace

std::unique_ptr<CpuKernel> make_dropout_kernel(const Op& op, CpuContext& context) {
  return make_drop_kernel(op, context);
}
std::unique_ptr<CpuKernel> make_dropout_backward_kernel(const Op& op, CpuContext& context) {
  return make_drop_kernel(op, context);
}

}  // namespace trainer
