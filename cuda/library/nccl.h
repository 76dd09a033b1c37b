#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "cuda/launch/stream.h"

struct ncclComm;

namespace trainer::cuda {

/// What names a group of ranks: made by one of them, told to all.
struct NcclUniqueId {
  char internal[128] = {};
};

/// The beginning of ncclConfig_t that every NCCL from `least_nccl_version` on knows.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;  ///< which says where it ends
  int blocking = 1;
  int cluster_size = INT_MIN;  ///< INT_MIN: as NCCL has it
  int min_ctas = INT_MIN, max_ctas = INT_MIN;
  const char* network = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
};

/// ncclResult_t.
enum class NcclResult : int {
  success = 0,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress,
};

/// ncclDataType_t.
enum class NcclType : int { u8 = 1, i32 = 2, i64 = 4, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };

/// ncclRedOp_t.
enum class NcclSum : int { sum = 0 };

/// The functions of NCCL that are used. tests/cuda_device/nccl_test.cpp holds them against nccl.h.
struct NcclCalls {
  using Comm = ncclComm*;
  NcclResult (*get_version)(int* version) = nullptr;
  const char* (*error_string)(NcclResult result) = nullptr;
  const char* (*last_error)(Comm comm) = nullptr;
  NcclResult (*unique_id)(NcclUniqueId* id) = nullptr;
  NcclResult (*init)(Comm* comm, int size, NcclUniqueId id, int rank, NcclConfig* config) = nullptr;
  NcclResult (*destroy)(Comm comm) = nullptr;
  NcclResult (*abort)(Comm comm) = nullptr;
  NcclResult (*async_error)(Comm comm, NcclResult* error) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  NcclResult (*all_reduce)(const void* from, void* to, std::size_t count, NcclType type, NcclSum sum, Comm comm,
                           Stream stream) = nullptr;
  NcclResult (*broadcast)(const void* from, void* to, std::size_t count, NcclType type, int root, Comm comm,
                          Stream stream) = nullptr;
  NcclResult (*reduce)(const void* from, void* to, std::size_t count, NcclType type, NcclSum sum, int root, Comm comm,
                       Stream stream) = nullptr;
  NcclResult (*reduce_scatter)(const void* from, void* to, std::size_t count_of_rank, NcclType type, NcclSum sum,
                               Comm comm, Stream stream) = nullptr;
  NcclResult (*all_gather)(const void* from, void* to, std::size_t count_of_rank, NcclType type, Comm comm,
                           Stream stream) = nullptr;
  NcclResult (*send)(const void* from, std::size_t count, NcclType type, int peer, Comm comm, Stream stream) = nullptr;
  NcclResult (*receive)(void* to, std::size_t count, NcclType type, int peer, Comm comm, Stream stream) = nullptr;
};

/// NCCL, which is loaded when ranks have GPUs, and linked nowhere. Stays loaded, for it starts threads.
class Nccl {
 public:
  /// Throws DeviceError, a sentence that tells what to do, where `file` is not found, or is no NCCL or too old a one.
  explicit Nccl(const std::string& file);

  const NcclCalls& calls() const { return calls_; }
  int version() const { return version_; }  ///< 22809 of 2.28.9

 private:
  NcclCalls calls_;
  int version_ = 0;
};

/// The first whose ncclConfig_t begins as NcclConfig.
inline constexpr int least_nccl_version = 21800;
/// The first that lets ranks share a GPU, where NCCL_MULTI_RANK_GPU_ENABLE is 1.
inline constexpr int first_nccl_that_shares = 23000;

/// The file that the variable TRAINER_NCCL names, or libnccl.so.2, wherever the system's loader finds it.
std::string nccl_file();
/// That of nccl_file(), loaded once.
const Nccl& nccl();

/// "2.28.9" of 22809.
std::string nccl_version_text(int version);

}  // namespace trainer::cuda
