#include "cuda/library/rank_gpus.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cuda/model/described_device.h"
#include "cuda/model/nccl_memory.h"
#include "engine/bytes.h"
#include "engine/errors.h"
#include "tests/ranks/rank_threads.h"

using namespace trainer;
using namespace trainer::cuda;
using Catch::Matchers::Contains;

namespace {

RankGpu gpu_of(char uuid, int index, int nccl_version = 22809) {
  RankGpu gpu;
  gpu.uuid[3] = uuid;
  gpu.index = index;
  gpu.nccl_version = nccl_version;
  std::string_view("Pretended 9").copy(gpu.name.data(), gpu.name.size() - 1);
  return gpu;
}

std::string refusal_of(const std::vector<RankGpu>& gpus, bool may_share) {
  try {
    require_gpus(gpus, may_share);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ranks tell each other their GPUs") {
  std::vector<int> num_wrong(3);
  on_ranks(3, [&](SocketCommunicator& ranks) {
    const std::vector<RankGpu> gpus = tell_gpus(ranks, gpu_of(static_cast<char>(ranks.rank() % 2), ranks.rank()));
    for (int rank = 0; rank < 3; ++rank)
      if (gpus[static_cast<std::size_t>(rank)].index != rank) ++num_wrong[static_cast<std::size_t>(ranks.rank())];
    if (num_sharing(gpus, 1) != 1 || num_sharing(gpus, 2) != 2 || most_sharing(gpus) != 2)
      ++num_wrong[static_cast<std::size_t>(ranks.rank())];
    meet_ranks(ranks);
  });
  CHECK(num_wrong == std::vector<int>(3));
}

TEST_CASE("more ranks than GPUs are refused, but where NCCL lets them share and is told to") {
  CHECK(refusal_of({gpu_of('a', 0), gpu_of('b', 1)}, false) == "");
  const std::string refusal = refusal_of({gpu_of('a', 0), gpu_of('b', 1), gpu_of('a', 0)}, true);
  CHECK_THAT(refusal, Contains("3 ranks have 2 GPUs: ranks 0 and 2 are both on GPU 0 (Pretended 9)") &&
                          Contains("device.type=cpu") && Contains("NCCL 2.30.0 and newer") &&
                          Contains("this is 2.28.9"));
  CHECK_THAT(refusal_of({gpu_of('a', 0, 23007), gpu_of('a', 0, 23007)}, false),
             Contains("2 ranks have 1 GPU:") && Contains("NCCL_MULTI_RANK_GPU_ENABLE=1 is set"));
  CHECK(refusal_of({gpu_of('a', 0, 23007), gpu_of('a', 0, 23007)}, true) == "");
  CHECK_THAT(refusal_of({gpu_of('a', 0, 23007), gpu_of('b', 0, 22809)}, false),
             Contains("rank 0 has NCCL 2.30.7, and rank 1 NCCL 2.28.9"));
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  CHECK(ranks_may_share());
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);
  CHECK_FALSE(ranks_may_share());
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  CHECK_FALSE(ranks_may_share());
}

TEST_CASE("what NCCL's buffers take is estimated by its own variables, and is a part of a described GPU") {
  const auto of_data = [](std::int64_t num_ranks, bool in_order = false) {
    return estimated_nccl_memory({.layout = {.num_data = num_ranks}, .in_order = in_order});
  };
  CHECK(of_data(1).num_bytes == 0);
  constexpr std::int64_t of_channel = (std::int64_t{4} << 20) + 524'288 + 4'915'200;
  CHECK(of_data(2).num_bytes == 16 * of_channel);
  CHECK(of_data(8).num_bytes == 2 * 16 * of_channel);
  CHECK(of_data(2).formula ==
        "16 channels (NCCL_MAX_CTAS), each with buffers of 4.00 MiB (NCCL_BUFFSIZE) and 5.19 MiB for its neighbour in "
        "its ring");
  // Two ranks add up in any case as they would in order; of eight each exchanges with three.
  CHECK(of_data(2, true).num_bytes == of_data(2).num_bytes);
  CHECK(of_data(8, true).num_bytes == 5 * 16 * of_channel);
  CHECK_THAT(of_data(8, true).formula, Contains("for both neighbours in its ring and 3 ranks to exchange with"));
  // A pipeline of two: a ring, and the other once more to exchange with.
  CHECK(estimated_nccl_memory({.layout = {.num_stages = 2}}).num_bytes == 2 * 16 * of_channel);
  // All 16 (of two neighbours, and two to exchange with), 2 that share a batch, 2 that share a layer; by one channel
  // the 8 that have samples between them and the 4 of a pipeline, two neighbours each.
  const CommunicationMemory of_all =
      estimated_nccl_memory({.layout = {.num_data = 2, .num_stages = 4, .num_tensor = 2}});
  CHECK(of_all.num_bytes == (6 * 16 + 2 * 2) * of_channel);
  CHECK_THAT(of_all.formula, Contains("in 3 of 5 groups of ranks and one in each other") &&
                                 Contains("both neighbours in its ring and 2 ranks to exchange with"));
  // Ranks that share layers and batches add up a few numbers among all.
  CHECK(estimated_nccl_memory({.layout = {.num_data = 2, .num_tensor = 2}}).num_bytes == (2 * 16 + 2) * of_channel);
  ::setenv("NCCL_MAX_CTAS", "4", 1);
  ::setenv("NCCL_BUFFSIZE", "1048576", 1);
  CHECK(of_data(3).num_bytes == 2 * 4 * (of_channel - (std::int64_t{3} << 20)));
  ::setenv("NCCL_BUFFSIZE", "many", 1);
  CHECK(of_data(3).num_bytes == 2 * 4 * of_channel);
  ::unsetenv("NCCL_MAX_CTAS");
  ::unsetenv("NCCL_BUFFSIZE");

  GpuProfile profile;
  profile.compute_capability = 90;
  profile.context_bytes = 60 << 20;
  profile.library_bytes = 40 << 20;
  for (const int num_ranks : {1, 4}) {
    const auto device = make_described_device(profile, {.sums = {.layout = {.num_data = num_ranks}}}, 0);
    std::int64_t outside = 0;
    for (const NamedBytes& part : device->outside_allocator()) outside += part.num_bytes;
    const std::int64_t of_nccl = num_ranks == 1 ? 0 : 2 * 16 * of_channel;
    CHECK(outside == profile.context_bytes + profile.library_bytes + of_nccl);
    CHECK(device->communication_memory({.num_data = num_ranks}).num_bytes == of_nccl);
  }
}
