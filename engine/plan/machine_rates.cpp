#include "engine/plan/machine_rates.h"

#include <algorithm>

#include "engine/errors.h"

namespace trainer {
namespace {

bool is_plain_update(const UpdateFormat& format) { return format.random_streams.empty(); }

void fill(RateTable& table, double peak_flops, double bandwidth, double call_seconds) {
  constexpr double share_of_peak = 0.8, convolutions_share_of_peak = 0.6, share_of_bandwidth = 0.9;
  for (auto& rates : table) {
    for (int i = 0; i < num_op_kinds; ++i) {
      const double share = is_convolution(static_cast<OpKind>(i)) ? convolutions_share_of_peak : share_of_peak;
      rates[static_cast<std::size_t>(i)] = {.flops_per_second = std::max(share * peak_flops, 1.0),
                                            .bytes_per_second = std::max(share_of_bandwidth * bandwidth, 1.0),
                                            .call_seconds = call_seconds};
    }
  }
}

}  // namespace

bool is_convolution(OpKind kind) {
  return kind == OpKind::conv2d || kind == OpKind::conv2d_backward_input || kind == OpKind::conv2d_backward_weight;
}

OpWay way_of(const Op& op, std::int64_t workspace_bytes) {
  bool is_usual = true;
  if (is_convolution(op.kind))
    is_usual = workspace_bytes <= num_operand_bytes(op);
  else if (op.kind == OpKind::activation || op.kind == OpKind::activation_backward)
    is_usual = attributes_of<ActivationAttributes>(op).function == Activation::relu;
  else if (op.kind == OpKind::sgd_update)
    is_usual = is_plain_update(attributes_of<SgdUpdateAttributes>(op).format);
  else if (op.kind == OpKind::adam_update)
    is_usual = !attributes_of<AdamUpdateAttributes>(op).eight_bit &&
               is_plain_update(attributes_of<AdamUpdateAttributes>(op).format);
  return is_usual ? OpWay::usual : OpWay::other;
}

std::int64_t num_operand_bytes(const Op& op) {
  std::int64_t num_bytes = 0;
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const TensorType& type : *operands) num_bytes += type.num_bytes();
  return num_bytes;
}

const OpRate& MachineRates::of(const Op& op, std::int64_t workspace_bytes) const {
  const RateTable& table = has_half_operand(op) ? half : f32;
  return table[static_cast<std::size_t>(way_of(op, workspace_bytes))][static_cast<std::size_t>(op.kind)];
}

std::string_view name_of(MachineRates::Origin origin) {
  switch (origin) {
    case MachineRates::Origin::assumed:
      return "assumed";
    case MachineRates::Origin::profile:
      return "profile";
    case MachineRates::Origin::measured:
      return "measured";
  }
  throw InternalError("internal error: rates are from somewhere");
}

MachineRates assumed_cpu_rates(int num_threads) {
  require_internal(num_threads > 0, "a CPU has threads");
  constexpr double slower_in_half = 1.3;
  constexpr auto other = static_cast<std::size_t>(OpWay::other);
  const OpRate usual = {
      .flops_per_second = 60e9 * num_threads, .bytes_per_second = 12e9 * num_threads, .call_seconds = 2e-6};
  MachineRates rates;
  for (auto& kinds : rates.f32) kinds.fill(usual);
  rates.half = rates.f32;
  for (auto& kinds : rates.half) {
    for (OpRate& rate : kinds) {
      rate.flops_per_second /= slower_in_half;
      // The same numbers are half the bytes.
      rate.bytes_per_second /= 2 * slower_in_half;
    }
  }
  // With 16 bits the scratch is for the operands in f32, which tells nothing of the algorithm.
  for (const OpKind kind : {OpKind::conv2d, OpKind::conv2d_backward_input, OpKind::conv2d_backward_weight})
    rates.f32[other][static_cast<std::size_t>(kind)].flops_per_second *= 2;
  // Codes and random bits of numbers that are stored in fewer bytes.
  for (const OpKind kind : {OpKind::sgd_update, OpKind::adam_update}) {
    OpRate coded = usual;
    coded.bytes_per_second /= 4;
    rates.f32[other][static_cast<std::size_t>(kind)] = rates.half[other][static_cast<std::size_t>(kind)] = coded;
  }
  rates.step_seconds = 20e-6;
  return rates;
}

MachineRates assumed_gpu_rates(bool tf32) {
  GpuProfile typical;
  typical.path = "a GPU of 10 TFLOP/s and 400 GB/s";
  typical.bandwidth = 400'000'000'000;
  typical.fp32 = 10;
  typical.tf32 = 20;
  typical.fp16 = 40;
  MachineRates rates = profile_rates(typical, tf32);
  rates.origin = MachineRates::Origin::assumed;
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
