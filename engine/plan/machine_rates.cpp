#include "engine/plan/machine_rates.h"

#include <algorithm>
#include <utility>

#include "engine/errors.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

void fill(RateTable& table, double peak_flops, double bandwidth, double call_seconds) {
  constexpr double share_of_peak = 0.8, convolutions_share_of_peak = 0.6, share_of_bandwidth = 0.9;
  for (auto& rates : table) {
    for (int i = 0; i < num_op_kinds; ++i) {
      const Work work = definition_of(static_cast<OpKind>(i)).work;
      const double share = work == Work::convolution ? convolutions_share_of_peak : share_of_peak;
      rates[static_cast<std::size_t>(i)] = {.flops_per_second = std::max(share * peak_flops, 1.0),
                                            .bytes_per_second = std::max(share_of_bandwidth * bandwidth, 1.0),
                                            .call_seconds = call_seconds};
    }
  }
}

}  // namespace

RateClass rate_class_of(const Op& op, std::int64_t workspace_bytes) {
  const OpDefinition& definition = definition_of(op.kind);
  const bool is_usual = definition.work == Work::convolution ? workspace_bytes <= num_operand_bytes(op)
                                                             : definition.is_slow == nullptr || !definition.is_slow(op);
  return is_usual ? RateClass::usual : RateClass::other;
}

std::int64_t num_operand_bytes(const Op& op) {
  if (const auto bytes_of = definition_of(op.kind).num_bytes; bytes_of != nullptr) return bytes_of(op);
  std::int64_t num_bytes = 0;
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const TensorType& type : *operands) num_bytes += type.num_bytes();
  if (op.placed_at >= 0) {
    // Of the whole only the part is touched.
    num_bytes -= (continues_whole(op) ? 2 : 1) * op.outputs[0].num_bytes() - op.inputs[0].num_bytes();
  }
  return num_bytes;
}

const OpRate& MachineRates::of(const Op& op, std::int64_t workspace_bytes) const {
  const RateTable& table = has_half_operand(op) ? half : f32;
  return table[static_cast<std::size_t>(rate_class_of(op, workspace_bytes))][static_cast<std::size_t>(op.kind)];
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
  constexpr auto other = static_cast<std::size_t>(RateClass::other);
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
  for (std::size_t kind = 0; kind < num_op_kinds; ++kind)
    if (definition_of(static_cast<OpKind>(kind)).work == Work::convolution)
      rates.f32[other][kind].flops_per_second *= 2;
  // Codes and random bits of numbers that are stored in fewer bytes.
  OpRate coded = usual;
  coded.bytes_per_second /= 4;
  for (std::size_t kind = 0; kind < num_op_kinds; ++kind)
    if (definition_of(static_cast<OpKind>(kind)).role == Role::update)
      rates.f32[other][kind] = rates.half[other][kind] = coded;
  rates.step_seconds = 20e-6;
  return rates;
}

MachineRates shared_rates(MachineRates rates, double num_sharing) {
  for (RateTable* const table : {&rates.f32, &rates.half})
    for (auto& kinds : *table)
      for (OpRate& rate : kinds) {
        rate.flops_per_second /= num_sharing;
        rate.bytes_per_second /= num_sharing;
        rate.call_seconds *= num_sharing;
      }
  rates.step_seconds *= num_sharing;
  return rates;
}

MachineRates assumed_gpu_rates(bool tf32) {
  GpuProfile typical;
  typical.path = "a GPU of 10 TFLOP/s and 400 GB/s";
  typical.compute_capability = 80;
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
  // Attention in f32 uses no tensor cores, in 16 bits it does from 8.0 on (Note [Attention in fragments] in
  // cuda/kernels/attention_mma.h); what it reaches of the peaks is a guess, and heads that those kernels do not take
  // are slower. Seven products backward count as five.
  const bool has_tensor_cores = profile.compute_capability >= 80 && profile.fp16 > 0;
  const double f32_rate = 0.5e12 * profile.fp32;
  for (const auto& [kind, share] : {std::pair{OpKind::attention, 0.3}, {OpKind::attention_backward, 0.2}}) {
    for (auto& kinds : rates.f32) kinds[static_cast<std::size_t>(kind)].flops_per_second = f32_rate;
    for (auto& kinds : rates.half)
      kinds[static_cast<std::size_t>(kind)].flops_per_second =
          has_tensor_cores ? share * 1e12 * profile.fp16 : f32_rate;
  }
  rates.step_seconds = 10e-6;
  return rates;
}

}  // namespace trainer
