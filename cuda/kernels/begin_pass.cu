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

__device__ __forceinline__ std::byte* place_of(const FeedPlaces& places, std::int64_t step) {
  return places.first + step % places.count * places.stride;
}

__global__ void __launch_bounds__(elementwise_threads)
    begin_fed_step_kernel(FeedPlaces places, const std::int64_t* num_steps, StepScalars* destination, FedInput first,
                          FedInput second) {
  wait_for_earlier_kernels();
  const std::int64_t thread = std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x;
  const std::int64_t num_threads = std::int64_t{gridDim.x} * elementwise_threads;
  const std::byte* const place = place_of(places, *num_steps);
  if (thread == 0) *destination = *reinterpret_cast<const StepScalars*>(place);
  const std::byte* const input = place + places.input_offset;
  copy_share({first.destination, input + first.offset, first.num_bytes}, thread, num_threads);
  copy_share({second.destination, input + second.offset, second.num_bytes}, thread, num_threads);
}

__global__ void __launch_bounds__(warp_size)
    end_fed_step_kernel(FeedPlaces places, std::int64_t* num_steps, FedResult first, FedResult second) {
  wait_for_earlier_kernels();
  const std::int64_t step = *num_steps;
  auto* const to = reinterpret_cast<std::uint64_t*>(place_of(places, step) + places.result_offset);
  const auto* const from_first = static_cast<const std::uint64_t*>(first.source);
  const auto* const from_second = static_cast<const std::uint64_t*>(second.source);
  const std::int64_t num_first = first.num_bytes / 8, count = num_first + second.num_bytes / 8;
  for (std::int64_t i = threadIdx.x; i < count; i += warp_size)
    to[i] = i < num_first ? from_first[i] : from_second[i - num_first];
  __syncthreads();  // all have read the count
  if (threadIdx.x == 0) *num_steps = step + 1;
}

/// A loop beyond some thousand blocks, which fill any GPU.
Dim3 copy_grid(std::int64_t first_bytes, std::int64_t second_bytes) {
  const std::int64_t most_bytes = std::max<std::int64_t>({1, first_bytes, second_bytes});
  return {
      static_cast<unsigned>(std::min<std::int64_t>(4096, num_blocks(most_bytes, elementwise_threads * piece_bytes)))};
}

}  // namespace

void begin_pass(const StepScalars& scalars, StepScalars* destination, const StagedCopy& first, const StagedCopy& second,
                Stream stream) {
  launch(begin_pass_kernel, copy_grid(first.num_bytes, second.num_bytes), {elementwise_threads}, stream, scalars,
         destination, first, second);
}

void begin_fed_step(const FeedPlaces& places, const std::int64_t* num_steps, StepScalars* destination,
                    const FedInput& first, const FedInput& second, Stream stream) {
  launch(begin_fed_step_kernel, copy_grid(first.num_bytes, second.num_bytes), {elementwise_threads}, stream, places,
         num_steps, destination, first, second);
}

void end_fed_step(const FeedPlaces& places, std::int64_t* num_steps, const FedResult& first, const FedResult& second,
                  Stream stream) {
  launch(end_fed_step_kernel, {1}, {warp_size}, stream, places, num_steps, first, second);
}

}  // namespace trainer::cuda
