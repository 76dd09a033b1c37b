#pragma once

#include <cstdint>

#include "cuda/model/rank_sums.h"
#include "engine/device/device.h"

namespace trainer::cuda {

/// How many channels NCCL may have, each a block of its kernels with buffers of its own, unless the variable
/// NCCL_MAX_CTAS, which NCCL reads too, says otherwise. Left alone NCCL takes up to 64.
inline constexpr int usual_nccl_channels = 16;

/// What the buffers of NCCL take of a GPU, before there is a run that measures it; nothing for one rank.
///
/// Of NCCL 2.30's src/init.cc and src/transport/p2p.cc: a channel receives from each neighbour through a buffer for
/// each of NCCL's three protocols, of NCCL_BUFFSIZE (4 MiB), NCCL_LL_BUFFSIZE (512 KiB) and NCCL_LL128_BUFFSIZE (4,800
/// KiB) bytes. Within a machine the ring and the trees go through the same two neighbours; of two ranks there is one.
/// So it is in each group of Note [Groups of ranks] in cuda/model/rank_sums.h. Of those with whom a rank exchanges
/// tensors (neighbours in a pipeline, and where more than two ranks share a batch and add up in order those of Note
/// [Sums in one order] in cuda/ops/tree_sum.h) each has as many buffers as one neighbour, which is the most: NCCL may
/// give such a pair fewer channels. A rank in the middle of a pipeline counts, and stages that are no neighbours do
/// not; nor do the code of NCCL's kernels and connections to other machines.
CommunicationMemory estimated_nccl_memory(const RankSums& sums);

}  // namespace trainer::cuda
