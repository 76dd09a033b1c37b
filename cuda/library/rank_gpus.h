#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/device/communicator.h"

namespace trainer::cuda {

/// Where a rank computes, as it tells the others.
struct RankGpu {
  std::array<char, 16> uuid{};   ///< of no other GPU, on any machine
  std::array<char, 100> name{};  ///< ends with 0
  std::int32_t index = 0;        ///< as its process counts GPUs
  std::int32_t nccl_version = 0;
};

/// What all ranks have told, by rank.
std::vector<RankGpu> tell_gpus(Communicator& ranks, const RankGpu& own);
/// Waits until all ranks have come here.
void meet_ranks(Communicator& ranks);

/// How many ranks compute where `rank` does; the most that do so on any GPU.
int num_sharing(std::span<const RankGpu> gpus, int rank);
int most_sharing(std::span<const RankGpu> gpus);

/// Throws DeviceError, the same on every rank, where their NCCLs differ, or two have one GPU and may not: this takes
/// NCCL 2.30 and `may_share`.
void require_gpus(std::span<const RankGpu> gpus, bool may_share);
/// Whether the variable NCCL_MULTI_RANK_GPU_ENABLE is 1.
bool ranks_may_share();

}  // namespace trainer::cuda
