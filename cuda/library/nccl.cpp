#include "cuda/library/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "engine/errors.h"

namespace trainer::cuda {
namespace {

constexpr const char* nccl_variable = "TRAINER_NCCL";
constexpr const char* how_to_get_nccl =
    "install NVIDIA's package libnccl2, or `pip install nvidia-nccl-cu13` and set TRAINER_NCCL to the libnccl.so.2 in "
    "its folder nvidia/nccl/lib; or use device.type=cpu";

template <typename Function>
void find(void* library, const std::string& file, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw DeviceError(fmt::format("{} is not NCCL, or an old one: it has no {}; {}", file, name, how_to_get_nccl));
}

}  // namespace

Nccl::Nccl(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw DeviceError(
        fmt::format("ranks reach one another's GPUs by NCCL, which is not found ({}): {}", dlerror(), how_to_get_nccl));
  find(library, file, "ncclGetVersion", calls_.get_version);
  find(library, file, "ncclGetErrorString", calls_.error_string);
  find(library, file, "ncclGetLastError", calls_.last_error);
  find(library, file, "ncclGetUniqueId", calls_.unique_id);
  find(library, file, "ncclCommInitRankConfig", calls_.init);
  find(library, file, "ncclCommDestroy", calls_.destroy);
  find(library, file, "ncclCommAbort", calls_.abort);
  find(library, file, "ncclCommGetAsyncError", calls_.async_error);
  find(library, file, "ncclGroupStart", calls_.group_start);
  find(library, file, "ncclGroupEnd", calls_.group_end);
  find(library, file, "ncclAllReduce", calls_.all_reduce);
  find(library, file, "ncclBroadcast", calls_.broadcast);
  find(library, file, "ncclReduce", calls_.reduce);
  find(library, file, "ncclReduceScatter", calls_.reduce_scatter);
  find(library, file, "ncclAllGather", calls_.all_gather);
  find(library, file, "ncclSend", calls_.send);
  find(library, file, "ncclRecv", calls_.receive);
  if (calls_.get_version(&version_) != NcclResult::success || version_ < least_nccl_version)
    throw DeviceError(fmt::format("{} is NCCL {}, and ranks need {} or newer: {}", file, nccl_version_text(version_),
                                  nccl_version_text(least_nccl_version), how_to_get_nccl));
}

std::string nccl_file() {
  const char* const given = std::getenv(nccl_variable);
  return given != nullptr && *given != '\0' ? given : "libnccl.so.2";
}

const Nccl& nccl() {
  static const Nccl library(nccl_file());
  return library;
}

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace trainer::cuda
