#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/config/gpu_profile.h"
#include "engine/ops/half_operand.h"
#include "engine/plan/link_rates.h"

namespace trainer {

/// How fast a machine runs calls of one kind: FLOPs or bytes, whichever takes longer, and what a call takes however
/// small. Bytes are those of the operands, each once; what a kernel moves more often lowers its rate. Rates are at
/// least 1 a second.
struct OpRate {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double call_seconds = 0;

  friend bool operator==(const OpRate&, const OpRate&) = default;
};

/// Kinds of ops whose calls do not all run at the same rates have two of them.
enum class RateClass : std::uint8_t {
  usual,
  /// Convolutions whose scratch is larger than their operands: another algorithm (Winograd's) with fewer operations
  /// than are counted. Other ops where they are slow (OpDefinition::is_slow).
  other,
};
inline constexpr int num_rate_classes = 2;
/// Bytes of all operands, each once; of what a placed op is placed in (Note [Placed outputs] in engine/ops/placed.h)
/// those that it writes.
std::int64_t num_operand_bytes(const Op& op);
RateClass rate_class_of(const Op& op, std::int64_t workspace_bytes);

/// By class and kind.
using RateTable = std::array<std::array<OpRate, num_op_kinds>, num_rate_classes>;

/// What a machine does in a second, by kind of op; the cost model (engine/plan/cost_model.h) reads nothing else of it.
/// Only times follow from rates, never bytes or what is computed again: plans are the same on every machine.
struct MachineRates {
  enum class Origin : std::uint8_t {
    assumed,   ///< nobody measured: of a typical machine of the kind; ratios of times are better than times
    profile,   ///< from the figures of a GPU's profile
    measured,  ///< by `trainer bench` on this machine
  };
  Origin origin = Origin::assumed;
  std::string source;  ///< the file they are from; of assumed ones what was assumed, or empty: a CPU of its threads
  RateTable f32{};
  RateTable half{};         ///< of ops with a 16-bit operand
  double step_seconds = 0;  ///< of the host, for a step however small; more than 0
  RankLinks links{};        ///< between ranks; of which it knows nothing, they take no time

  /// Of `op` with that much scratch.
  const OpRate& of(const Op& op, std::int64_t workspace_bytes) const;
  friend bool operator==(const MachineRates&, const MachineRates&) = default;
};

/// "assumed", "profile", "measured"
std::string_view name_of(MachineRates::Origin origin);

/// A CPU of that many threads that nobody measured: 60 GFLOP/s and 12 GB/s a thread at large products, which is half
/// of what a core with AVX-512 was measured to reach. With 16-bit operands it takes 1.3 times as long: it stores 16
/// bits and computes in f32.
MachineRates assumed_cpu_rates(int num_threads);

/// Of one of several processes that keep more threads busy than there are cores: each has 1/`num_sharing` of the time.
MachineRates shared_rates(MachineRates rates, double num_sharing);

/// A GPU that is here, that no profile describes and nobody measured: as profile_rates of one with 10 TFLOP/s in f32,
/// 20 in TF32, 40 in 16 bit and 400 GB/s, about an RTX 3060 to 3070.
MachineRates assumed_gpu_rates(bool tf32);

/// A GPU that is not here, from its published peaks, at the shares of them that were published for kernels on one H100
/// or H200: products 0.8 of the peak (cuBLAS in bf16: 794 of 989 TFLOP/s); streams of bytes 0.9 of the bandwidth (4.3
/// of 4.8 TB/s). Of convolutions 0.6 is a guess between products and what whole networks reach (ResNet-50: 7,000 images
/// a second are 0.17 of the peak, most of the time waiting for bytes). A kernel of a replayed step starts within 2 µs.
MachineRates profile_rates(const GpuProfile& profile, bool tf32);

}  // namespace trainer
