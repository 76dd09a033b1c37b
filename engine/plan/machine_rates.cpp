#include "engine/plan/machine_rates.h"

#include <algorithm>

namespace trainer {
namespace {

bool has_half_operand(const Op& op) {
  const auto is_half = [](const TensorType& type) { return type.dtype == DType::f16 || type.dtype == DType::bf16; };
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_half) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_half);
}

}  // namespace

const OpRate& MachineRates::of(const Op& op) const {
  return (has_half_operand(op) ? half : f32)[static_cast<std::size_t>(op.kind)];
}

MachineRates assumed_cpu_rates(int num_threads) {
  MachineRates rates;
  rates.f32.fill({.flops_per_second = 60e9 * num_threads, .bytes_per_second = 12e9, .call_seconds = 2e-6});
  rates.half = rates.f32;
  rates.step_seconds = 20e-6;
  return rates;
}

MachineRates profile_rates(const GpuProfile& profile, bool tf32) {
  constexpr double share_of_peak = 0.6;
  constexpr double share_of_bandwidth = 0.8;
  MachineRates rates;
  rates.origin = MachineRates::Origin::profile;
  rates.source = profile.path;
  const double f32_peak = tf32 && profile.tf32 > 0 ? profile.tf32 : profile.fp32;
  const double half_peak = profile.fp16 > 0 ? profile.fp16 : profile.fp32;
  const double bytes_per_second = share_of_bandwidth * static_cast<double>(profile.bandwidth);
  rates.f32.fill({share_of_peak * f32_peak * 1e12, bytes_per_second, 2e-6});
  rates.half.fill({share_of_peak * half_peak * 1e12, bytes_per_second, 2e-6});
  rates.step_seconds = 10e-6;
  return rates;
}

}  // namespace trainer
