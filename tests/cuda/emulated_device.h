#pragma once

#include <memory>

#include "cuda/model/rank_sums.h"
#include "engine/device/device.h"
#include "tests/cuda/deferred_queues.h"

namespace trainer::cuda {

/// The CUDA device's ops on host memory: kernels through the host launch layer, library calls by interpreters of their
/// descriptions. Its queues put work off as long as the contract of Device allows: kernels, fills and copies run only
/// when a mark, a copy ahead or everything is waited for, and copies ahead when the next pass begins or they are waited
/// for. So whoever reads a result, changes host memory or frees device memory too early gets wrong numbers. Copies of
/// activations to the host and back run as late, or as early, as the waits of their streams allow; what is recorded has
/// to follow CUDA's rules for a capture. Ranks are threads or processes, which reach each other by tests/fake_nccl.
/// Where `relu_hides_nan` the library's ReLU makes 0 of NaN.
std::unique_ptr<Device> make_emulated_device(bool tf32 = false, CopyTiming timing = CopyTiming::late,
                                             bool relu_hides_nan = false);

/// What the library of an emulated device has of attention.
enum class LibraryAttention : std::uint8_t {
  planned,  ///< plans for tests/cuda/host_attention.h, which then cannot be built: own kernels run
  built,    ///< and can
};
std::unique_ptr<Device> make_emulated_device(LibraryAttention attention, bool deterministic);

/// Of one of several ranks.
std::unique_ptr<Device> make_emulated_device(const RankSums& sums, CopyTiming timing = CopyTiming::late);

}  // namespace trainer::cuda
