#include "cuda/library/rank_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "cuda/library/nccl.h"
#include "engine/errors.h"

namespace trainer::cuda {
namespace {

constexpr const char* sharing_variable = "NCCL_MULTI_RANK_GPU_ENABLE";

std::string explain_sharing(std::span<const RankGpu> gpus, std::size_t first, std::size_t second) {
  std::set<std::array<char, 16>> different;
  for (const RankGpu& gpu : gpus) different.insert(gpu.uuid);
  const int version = gpus[0].nccl_version;
  const std::string sharing =
      version >= first_nccl_that_shares
          ? fmt::format("NCCL {} lets ranks share a GPU, experimentally, where {}=1 is set", nccl_version_text(version),
                        sharing_variable)
          : fmt::format("NCCL {} and newer let ranks share a GPU, experimentally, where {}=1 is set; this is {}",
                        nccl_version_text(first_nccl_that_shares), sharing_variable, nccl_version_text(version));
  return fmt::format(
      "each rank needs a GPU of its own, and {} ranks have {} {}: ranks {} and {} are both on GPU {} ({}). Start as "
      "many ranks as there are GPUs, with device.type=cuda and no number behind it, or use device.type=cpu. {}",
      gpus.size(), different.size(), different.size() == 1 ? "GPU" : "GPUs", first, second, gpus[first].index,
      gpus[first].name.data(), sharing);
}

/// What each tells all others, by rank.
template <typename T>
std::vector<T> tell_all(Communicator& ranks, const T& own) {
  std::vector<T> told(static_cast<std::size_t>(ranks.size()));
  std::vector<SentBytes> sends;
  std::vector<ReceivedBytes> receives;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (rank == ranks.rank()) continue;
    sends.push_back({rank, &own, sizeof own});
    receives.push_back({rank, &told[static_cast<std::size_t>(rank)], sizeof own});
  }
  told[static_cast<std::size_t>(ranks.rank())] = own;
  ranks.exchange(sends, receives);
  return told;
}

}  // namespace

std::vector<RankGpu> tell_gpus(Communicator& ranks, const RankGpu& own) { return tell_all(ranks, own); }

void meet_ranks(Communicator& ranks) { tell_all(ranks, char{}); }

int num_sharing(std::span<const RankGpu> gpus, int rank) {
  const RankGpu& own = gpus[static_cast<std::size_t>(rank)];
  return static_cast<int>(
      std::count_if(gpus.begin(), gpus.end(), [&](const RankGpu& gpu) { return gpu.uuid == own.uuid; }));
}

int most_sharing(std::span<const RankGpu> gpus) {
  int most = 0;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank)
    most = std::max(most, num_sharing(gpus, static_cast<int>(rank)));
  return most;
}

void require_gpus(std::span<const RankGpu> gpus, bool may_share) {
  for (std::size_t rank = 1; rank < gpus.size(); ++rank)
    if (gpus[rank].nccl_version != gpus[0].nccl_version)
      throw DeviceError(
          fmt::format("rank 0 has NCCL {}, and rank {} NCCL {}: all ranks need the same (TRAINER_NCCL "
                      "names its file)",
                      nccl_version_text(gpus[0].nccl_version), rank, nccl_version_text(gpus[rank].nccl_version)));
  if (may_share && gpus[0].nccl_version >= first_nccl_that_shares) return;
  for (std::size_t second = 1; second < gpus.size(); ++second)
    for (std::size_t first = 0; first < second; ++first)
      if (gpus[first].uuid == gpus[second].uuid) throw DeviceError(explain_sharing(gpus, first, second));
}

bool ranks_may_share() {
  const char* const value = std::getenv(sharing_variable);
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace trainer::cuda
