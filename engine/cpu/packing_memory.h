#pragma once

#include <cstdint>

#include "engine/ops/op.h"

namespace trainer {

/// Note [Packed operands]
/// On processors without AVX-512, oneDNN's products copy blocks of their operands into an order of their own. It takes
/// the memory for that from posix_memalign in each call and frees it behind the call. What glibc until 2.37 frees of an
/// aligned block it does not find again for an equal one: the few bytes cut off in front stay with their thread, and
/// keep the block from growing back together, so that the heap grows with every step for some sixty steps (by 170 MiB
/// where a product packs 9). So posix_memalign is ours in this program: large blocks are aligned to a mebibyte, and
/// what is cut off is then too large to be kept by a thread. Sanitizers have a posix_memalign of their own, which
/// stays.
inline constexpr std::size_t packing_alignment = std::size_t{1} << 20;

/// About what oneDNN takes for `op` on `num_threads` threads: 0 but for products where it packs.
std::int64_t packing_bytes(const Op& op, int num_threads);

}  // namespace trainer
