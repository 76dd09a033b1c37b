#include "cuda/kernels/begin_pass.h"

#include <algorithm>

#include "cuda/kernels/elementwise.cuh"

namespace trainer::cuda {
namespace {

constexpr int piece_bytes = 16;

__device__ __forceinline__ std::int64_t offset_in_piece(const void* address) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address) % piece_bytes);
}

/// The part of `copy` that thread `thread` of `num_threads` has: pieces of the destination's alignment where source and
/// destination are aligned alike, and single bytes before, behind and else.
__device__ __forceinline__ void copy_share(const StagedCopy& copy, std::int64_t thread, std::int64_t num_threads) {
  auto* const to = static_cast<unsigned char*>(copy.destination);
  const auto* const from = static_cast<const unsigned char*>(copy.source);
  std::int64_t head = copy.num_bytes, num_pieces = 0;
  if (offset_in_piece(to) == offset_in_piece(from)) {
    head = (piece_bytes - offset_in_piece(to)) % piece_bytes;
    head = head < copy.num_bytes ? head : copy.num_bytes;
    num_pieces = (copy.num_bytes - head) / piece_bytes;
  }
  for (std::int64_t i = thread; i < num_pieces; i += num_threads) {
    using Piece = Pack<std::uint32_t, piece_bytes / 4>;
    reinterpret_cast<Piece*>(to + head)[i] = reinterpret_cast<const Piece*>(from + head)[i];
  }
  const std::int64_t behind = num_pieces * piece_bytes;  // what the pieces take out of the single bytes
  for (std::int64_t i = thread; i < copy.num_bytes - behind; i += num_threads) {
    const std::int64_t at = i < head ? i : i + behind;
    to[at] = from[at];
  }
}

__global__ void __launch_bounds__(elementwise_threads)
    begin_pass_kernel(StepScalars scalars, StepScalars* destination, StagedCopy first, StagedCopy second) {
  wait_for_earlier_kernels();
  const std::int64_t thread = std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x;
  const std::int64_t num_threads = std::int64_t{gridDim.x} * elementwise_threads;
  if (thread == 0) *destination = scalars;
  copy_share(first, thread, num_threads);
  copy_share(second, thread, num_threads);
}

}  // namespace

void begin_pass(const StepScalars& scalars, StepScalars* destination, const StagedCopy& first, const StagedCopy& second,
                Stream stream) {
  // A loop beyond some thousand blocks, which fill any GPU.
  const std::int64_t most_bytes = std::max<std::int64_t>({1, first.num_bytes, second.num_bytes});
  const std::int64_t blocks = std::min<std::int64_t>(4096, num_blocks(most_bytes, elementwise_threads * piece_bytes));
  launch(begin_pass_kernel, {static_cast<unsigned>(blocks)}, {elementwise_threads}, stream, scalars, destination, first,
         second);
}

}  // namespace trainer::cuda
