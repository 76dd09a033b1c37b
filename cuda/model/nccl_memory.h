#pragma once

#include <cstdint>

#include "engine/device/device.h"

namespace trainer::cuda {

/// How many channels NCCL may have, each a block of its kernels with buffers of its own, unless the variable
/// NCCL_MAX_CTAS, which NCCL reads too, says otherwise. Left alone NCCL takes up to 64.
inline constexpr int usual_nccl_channels = 16;

/// What the buffers of NCCL take of a GPU with so many ranks, before there is a run that measures it; nothing for one.
///
/// Of NCCL 2.30's src/init.cc and src/transport/p2p.cc: a channel receives from each neighbour through a buffer for
/// each of NCCL's three protocols, of NCCL_BUFFSIZE (4 MiB), NCCL_LL_BUFFSIZE (512 KiB) and NCCL_LL128_BUFFSIZE (4,800
/// KiB) bytes. Within a machine the ring and the trees go through the same two neighbours; of two ranks there is one.
/// Where more than two ranks have `sums_in_order`, there are as many buffers for each of those with whom a rank
/// exchanges numbers (Note [Sums in one order] in cuda/ops/tree_sum.h), which is the most: NCCL may give such a pair
/// fewer channels. The code of its kernels and connections to other machines are not counted.
CommunicationMemory estimated_nccl_memory(std::int64_t num_ranks, bool sums_in_order = false);

}  // namespace trainer::cuda
