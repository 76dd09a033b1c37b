#pragma once

// Note [Kernels on the host]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Every kernel is one source that is compiled twice: by nvcc for the GPU, and by the C++ compiler for tests, where the
// threads of a block are fibers that run one after the other until a barrier, a shuffle or their end. So each kernel
// can be compared with the CPU device's op, and looked at by the address and undefined-behaviour sanitizers, on a
// machine without a GPU. A kernel keeps to what both sides offer:
//
//   __global__ __device__ __host__ __forceinline__ __restrict__ __launch_bounds__(n)
//   threadIdx blockIdx blockDim gridDim, their .x .y .z; warp_size (32)
//   wait_for_earlier_kernels()                       the first line of every kernel: Note [Early start]
//   __syncthreads()                                  every thread of the block must reach the same one
//   TRAINER_SHARED(T, name, count)                   an array of the block; on the host poisoned and bounds-checked
//   TRAINER_UNROLL                                   in front of a loop whose arrays must be registers
//   shuffle_xor(v, mask) shuffle_down(v, delta) shuffle(v, lane)   within the warp, all its threads taking part
//   atomic_add(p, v)                                 integers only: sums of floats would depend on the order
//   thread_fence()
//   sqrtf expf logf tanhf erff fabsf fmaxf fminf … and their double forms (the C library's names)
//   Pack<T, n>                                       n elements that load_pack(p) and store_pack(p, pack) move at once;
//                                                    store_shared_pack(p, pack) to an array of the block
//
// and is started by
//
//   launch(kernel<T>, grid, block, stream, arguments…)
//
// with Dim3 grid and block. A launch of no blocks does nothing. Blocks of the host run one after the other, in order.
// Kernels index with 64 bits, check every bound, and give the same bits on every run: no float atomics. What tensor
// cores do stands in Note [Products of a warp] in cuda/launch/tensor_cores.h.

// Note [Early start]
// ~~~~~~~~~~~~~~~~~~
// From compute capability 9.0 on, launch() lets a kernel start while the one in front of it still runs (CUDA:
// programmatic dependent launch, in a stream and in a recorded graph alike), so that its blocks are on the device, with
// their arguments read, when that one ends. wait_for_earlier_kernels() then waits until the kernel in front has ended
// and what it wrote can be seen. It is the first line of every kernel, in front of any access to memory but arguments
// and of any return, because a kernel may only count on the one directly in front of it: that this one has ended must
// mean that all before it have, so each of its threads has waited. Then it lets the kernel behind it start, so two
// kernels of a stream are on the device at most, and what all blocks of the first leave free is what the second takes.
// A kernel behind a wait for another stream has two in front of it, and waits for both.
//
// Kernels of libraries are started without this, and wait for everything in front of them as ever; so do copies, fills
// and events of other streams. One of ours behind a library's kernel waits for its end, whenever the library lets it
// start. A host launch refuses a kernel whose threads end without having waited; that nothing is read or written before
// is for the compiled code to show: tests/scripts/kernel_code_test.py.

#include <cstdint>

#include "cuda/launch/dim3.h"
#include "cuda/launch/stream.h"

namespace trainer::cuda {

inline constexpr int warp_size = 32;

/// n elements, aligned to their size. load_pack<n>(from) and store_pack(to, pack) move them between registers and
/// global memory by one instruction where they have up to 16 bytes, else 16 at a time. An assignment of packs need not:
/// nvcc takes it apart into elements and, where branches lie before it, does not put their stores together again.
template <typename T, int n>
struct alignas(n * sizeof(T)) Pack {
  T values[n];
};

/// Blocks of `per_block` that cover `count`.
constexpr std::int64_t num_blocks(std::int64_t count, std::int64_t per_block) {
  return (count + per_block - 1) / per_block;
}

}  // namespace trainer::cuda

#if defined(__CUDACC__)
#include "cuda/launch/device_launch.h"
#else
#include "cuda/launch/host_launch.h"
#endif
