#include <algorithm>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/half.h"

namespace trainer {

namespace {

void cast_elements(DType from, const std::byte* x, DType to, std::byte* y, std::int64_t count) {
  const auto from_size = static_cast<std::int64_t>(size_of(from)), to_size = static_cast<std::int64_t>(size_of(to));
  constexpr std::int64_t piece_elements = 1024;
  alignas(64) float piece[piece_elements];  // y may be x
  for (std::int64_t at = 0; at < count; at += piece_elements) {
    const std::int64_t size = std::min(piece_elements, count - at);
    widen(from, x + at * from_size, piece, size);
    narrow(to, piece, y + at * to_size, size);
  }
}

std::unique_ptr<CpuKernel> make_cast_kernel(const Op& op, CpuContext& context) {
  return make_kernel([from = op.inputs[0].dtype, to = op.outputs[0].dtype, count = op.inputs[0].num_elements(),
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const auto* const x = input<std::byte>(addresses, 0);
    auto* const y = output<std::byte>(addresses, 0);
    parallel_elements(threads, count, [&](std::int64_t begin, std::int64_t end) {
      cast_elements(from, x + begin * static_cast<std::int64_t>(size_of(from)), to,
                    y + begin * static_cast<std::int64_t>(size_of(to)), end - begin);
    });
  });
}

}  // namespace

const CpuOp cast_on_cpu = {make_cast_kernel, takes_16_bit};

}  // namespace trainer
