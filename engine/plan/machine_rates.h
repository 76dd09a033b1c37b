#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/config/gpu_profile.h"
#include "engine/ops/op.h"

namespace trainer {

/// How fast a machine runs one kind of op: FLOPs or bytes, whichever takes longer, and what a call takes however small.
struct OpRate {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double call_seconds = 0;
};

/// What a machine does in a second, by kind of op; the cost model (engine/plan/cost_model.h) reads nothing else of it.
/// Only times follow from rates, never bytes or what is computed again: plans are the same on every machine.
struct MachineRates {
  enum class Origin : std::uint8_t {
    assumed,   ///< nobody measured: of a typical machine of the kind; ratios of times are better than times
    profile,   ///< from the figures of a GPU's profile
    measured,  ///< by `trainer bench` on this machine
  };
  Origin origin = Origin::assumed;
  std::string source;  ///< the file they are from; empty where assumed
  std::array<OpRate, num_op_kinds> f32{};
  std::array<OpRate, num_op_kinds> half{};  ///< of ops with a 16-bit operand
  double step_seconds = 0;                  ///< of the host, for a step however small

  const OpRate& of(const Op& op) const;
};

/// A CPU of that many threads that nobody measured.
MachineRates assumed_cpu_rates(int num_threads);
/// From a profile's published peaks and bandwidth, at the shares of them that kernels reach.
MachineRates profile_rates(const GpuProfile& profile, bool tf32);

}  // namespace trainer
