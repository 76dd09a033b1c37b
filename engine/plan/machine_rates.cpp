#include "engine/plan/machine_rates.h"

#include <algorithm>

namespace trainer {
namespace {

bool is_convolution(OpKind kind) {
  return kind == OpKind::conv2d || kind == OpKind::conv2d_backward_input || kind == OpKind::conv2d_backward_weight;
}

void fill(std::array<OpRate, num_op_kinds>& rates, double peak_flops, double bandwidth, double call_seconds) {
  constexpr double share_of_peak = 0.8, convolutions_share_of_peak = 0.6, share_of_bandwidth = 0.9;
  for (int i = 0; i < num_op_kinds; ++i) {
    const double share = is_convolution(static_cast<OpKind>(i)) ? convolutions_share_of_peak : share_of_peak;
    rates[static_cast<std::size_t>(i)] = {.flops_per_second = share * peak_flops,
                                          .scratch_flops_per_second = share * peak_flops,
                                          .bytes_per_second = share_of_bandwidth * bandwidth,
                                          .call_seconds = call_seconds};
  }
}

}  // namespace

bool has_half_operand(const Op& op) {
  const auto is_half = [](const TensorType& type) { return type.dtype == DType::f16 || type.dtype == DType::bf16; };
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_half) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_half);
}

const OpRate& MachineRates::of(const Op& op) const {
  return (has_half_operand(op) ? half : f32)[static_cast<std::size_t>(op.kind)];
}

MachineRates assumed_cpu_rates(int num_threads) {
  MachineRates rates;
  rates.f32.fill({.flops_per_second = 60e9 * num_threads,
                  .scratch_flops_per_second = 120e9 * num_threads,
                  .bytes_per_second = 12e9 * num_threads,
                  .call_seconds = 2e-6});
  rates.half = rates.f32;
  rates.step_seconds = 20e-6;
  return rates;
}

MachineRates profile_rates(const GpuProfile& profile, bool tf32) {
  MachineRates rates;
  rates.origin = MachineRates::Origin::profile;
  rates.source = profile.path;
  const double f32_peak = tf32 && profile.tf32 > 0 ? profile.tf32 : profile.fp32;
  const double half_peak = profile.fp16 > 0 ? profile.fp16 : profile.fp32;
  const auto bandwidth = static_cast<double>(profile.bandwidth);
  fill(rates.f32, 1e12 * f32_peak, bandwidth, 2e-6);
  fill(rates.half, 1e12 * half_peak, bandwidth, 2e-6);
  rates.step_seconds = 10e-6;
  return rates;
}

}  // namespace trainer
