#include "cuda/library/nccl.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "cuda/library/rank_link.h"
#include "engine/errors.h"
#include "tests/cuda_device/skipped_without_gpu.h"

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

using namespace trainer::cuda;

#ifdef NCCL_MAJOR

namespace {

// Ours beside NCCL's own: sizes, places and numbers.
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(NcclResult) == sizeof(ncclResult_t) && sizeof(NcclType) == sizeof(ncclDataType_t) &&
              sizeof(NcclSum) == sizeof(ncclRedOp_t));
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(NcclConfig, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(NcclConfig, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, network) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(least_nccl_version == NCCL_VERSION(2, 18, 0) && first_nccl_that_shares == NCCL_VERSION(2, 30, 0));

constexpr bool is_number(NcclResult ours, ncclResult_t theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(is_number(NcclResult::success, ncclSuccess) &&
              is_number(NcclResult::unhandled_cuda_error, ncclUnhandledCudaError) &&
              is_number(NcclResult::system_error, ncclSystemError) &&
              is_number(NcclResult::internal_error, ncclInternalError) &&
              is_number(NcclResult::invalid_argument, ncclInvalidArgument) &&
              is_number(NcclResult::invalid_usage, ncclInvalidUsage) &&
              is_number(NcclResult::remote_error, ncclRemoteError) &&
              is_number(NcclResult::in_progress, ncclInProgress));
constexpr bool is_number(NcclType ours, ncclDataType_t theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(is_number(NcclType::u8, ncclUint8) && is_number(NcclType::i32, ncclInt32) &&
              is_number(NcclType::i64, ncclInt64) && is_number(NcclType::f16, ncclFloat16) &&
              is_number(NcclType::f32, ncclFloat32) && is_number(NcclType::f64, ncclFloat64) &&
              is_number(NcclType::bf16, ncclBfloat16));
static_assert(static_cast<int>(NcclSum::sum) == static_cast<int>(ncclSum));

/// What stands for a type of NCCL's in our declarations.
template <typename T>
struct Ours {
  using Type = T;
};
template <>
struct Ours<ncclResult_t> {
  using Type = NcclResult;
};
template <>
struct Ours<ncclResult_t*> {
  using Type = NcclResult*;
};
template <>
struct Ours<ncclDataType_t> {
  using Type = NcclType;
};
template <>
struct Ours<ncclRedOp_t> {
  using Type = NcclSum;
};
template <>
struct Ours<ncclUniqueId> {
  using Type = NcclUniqueId;
};
template <>
struct Ours<ncclUniqueId*> {
  using Type = NcclUniqueId*;
};
template <>
struct Ours<ncclConfig_t*> {
  using Type = NcclConfig*;
};
template <typename Result, typename... Arguments>
constexpr auto ours(Result (*)(Arguments...)) {
  using Function = typename Ours<Result>::Type (*)(typename Ours<Arguments>::Type...);
  return Function{};
}
template <typename A, typename B>
constexpr bool same_type(A, B) {
  return std::is_same_v<A, B>;
}

constexpr NcclCalls our_calls;
static_assert(same_type(our_calls.get_version, ours(decltype(&ncclGetVersion){})));
static_assert(same_type(our_calls.error_string, ours(decltype(&ncclGetErrorString){})));
static_assert(same_type(our_calls.last_error, ours(decltype(&ncclGetLastError){})));
static_assert(same_type(our_calls.unique_id, ours(decltype(&ncclGetUniqueId){})));
static_assert(same_type(our_calls.init, ours(decltype(&ncclCommInitRankConfig){})));
static_assert(same_type(our_calls.destroy, ours(decltype(&ncclCommDestroy){})));
static_assert(same_type(our_calls.abort, ours(decltype(&ncclCommAbort){})));
static_assert(same_type(our_calls.async_error, ours(decltype(&ncclCommGetAsyncError){})));
static_assert(same_type(our_calls.group_start, ours(decltype(&ncclGroupStart){})));
static_assert(same_type(our_calls.group_end, ours(decltype(&ncclGroupEnd){})));
static_assert(same_type(our_calls.all_reduce, ours(decltype(&ncclAllReduce){})));
static_assert(same_type(our_calls.broadcast, ours(decltype(&ncclBroadcast){})));
static_assert(same_type(our_calls.reduce, ours(decltype(&ncclReduce){})));
static_assert(same_type(our_calls.reduce_scatter, ours(decltype(&ncclReduceScatter){})));
static_assert(same_type(our_calls.all_gather, ours(decltype(&ncclAllGather){})));
static_assert(same_type(our_calls.send, ours(decltype(&ncclSend){})));
static_assert(same_type(our_calls.receive, ours(decltype(&ncclRecv){})));

}  // namespace

#endif

TEST_CASE("NCCL where it is installed has every function that is used") {
  std::string problem;
  try {
    const Nccl library(nccl_file());
    CHECK(library.version() >= least_nccl_version);
    CHECK(library.calls().error_string(NcclResult::invalid_usage) != nullptr);
    return;
  } catch (const trainer::DeviceError& error) {
    problem = error.what();
  }
  if (problem.find("is not found") == std::string::npos) FAIL(problem);
  WARN("SKIPPED: " + problem);
}

namespace {

/// The one rank of a run. Nothing reaches it.
class AloneRank final : public trainer::Communicator {
 public:
  AloneRank() { REQUIRE(::pipe(ends_) == 0); }
  ~AloneRank() override {
    for (const int end : ends_) ::close(end);
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void exchange(std::span<const trainer::SentBytes>, std::span<const trainer::ReceivedBytes>) override {}
  void check() const override {}
  int failure_descriptor() const override { return ends_[0]; }

 private:
  int ends_[2] = {};
};

}  // namespace

TEST_CASE("NCCL starts on a GPU, and what it takes is measured") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  const trainer::RankLayout two{.num_data = 2};
  CHECK_FALSE(device->communication_memory(two).formula.empty());
  AloneRank alone;
  device->set_communicator(alone);
  CHECK(device->communication_memory({}).formula.empty());
  CHECK(device->outside_allocator().back().name == "NCCL");
  CHECK(device->outside_allocator().back().num_bytes == device->communication_memory({}).num_bytes);
}

TEST_CASE("NCCL takes every type and list of tensors on a GPU") {
  using namespace trainer;
  const auto device = device_or_skip();
  if (device == nullptr) return;
  AloneRank alone;
  RankLink link(nccl(), alone, {.max_ctas = 2});
  constexpr std::int64_t count = 1000, num_bytes = 16'384;
  const auto source = device->make_memory_source(std::int64_t{64} << 20);
  const auto host = device->make_host_memory(num_bytes);
  constexpr std::int64_t segment = std::int64_t{2} << 20;
  auto* const memory = static_cast<std::byte*>(source->acquire(segment));
  REQUIRE(memory != nullptr);
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::u8}) {
    INFO(name_of(type));
    std::memset(host->data(), 1, num_bytes);  // a small number in every type
    device->copy_to_device(memory, host->data(), num_bytes);
    device->synchronize();
    const std::array both = {RankTensor{memory, count}, RankTensor{memory + num_bytes / 2, count}};
    const std::array slices = {RankSlices{memory, memory, count}};
    link.all_reduce(both, type, nullptr);
    link.broadcast(both, type, nullptr);
    link.reduce_scatter(slices, type, nullptr);
    link.all_gather(slices, type, nullptr);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    std::memset(host->data(), 0, num_bytes);
    device->copy_to_host(host->data(), memory, num_bytes);
    device->synchronize();
    CHECK(std::all_of(host->data(), host->data() + num_bytes, [](std::byte byte) { return byte == std::byte{1}; }));
  }
  link.check();
  source->release(memory, segment);
}
