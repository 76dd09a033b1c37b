#include "engine/train/measure/ceilings.h"

#include <algorithm>
#include <limits>

#include "engine/ops/op_definition.h"
#include "engine/plan/cost_model.h"
#include "engine/train/measure/timed_network.h"

namespace trainer {
namespace {

constexpr const char* products = R"(
data: {type: synthetic, shape: [1024], classes: 64, samples: 1024}
model: {layers: [linear: {out: 1024}, relu, linear: {out: 1024}, relu, linear: {out: 64}]}
train: {batch_size: 1024}
)";

/// Its sum moves 192 MiB, more than the caches of usual machines hold.
constexpr const char* streams = R"(
data: {type: synthetic, shape: [16], classes: 8, samples: 4096}
model: {layers: [linear: {out: 4096}, residual: {layers: [tanh]}, linear: {out: 8}]}
train: {batch_size: 4096}
)";

constexpr TimingOptions ceiling_timing = {.num_warm_up = 1, .num_steps = 1, .num_observed = 7, .max_seconds = 3};

double best_product(const TimedNetwork& network, bool in_half) {
  double best = 0;
  for (const CallTime& time : network.timing.calls) {
    const OpCall& call = network.compiled.program.calls[static_cast<std::size_t>(time.call)];
    if (has_half_operand(call.op) == in_half)
      best = std::max(best, static_cast<double>(definition_of(call.op.kind).flops(call.op)) / time.seconds);
  }
  return best;
}

}  // namespace

Ceilings measure_ceilings(Device& device, Amp amp) {
  Ceilings ceilings;
  const TimedNetwork in_f32 = time_network(products, "products", {}, device, ceiling_timing);
  ceilings.f32_flops_per_second = best_product(in_f32, false);
  if (amp != Amp::off) {
    const std::string override = amp == Amp::bf16 ? "train.amp=bf16" : "train.amp=fp16";
    ceilings.half_flops_per_second =
        best_product(time_network(products, "products", {override}, device, ceiling_timing), true);
  }
  const TimedNetwork sums = time_network(streams, "streams", {}, device, ceiling_timing);
  ceilings.call_seconds = std::numeric_limits<double>::max();
  for (const TimedNetwork* network : {&in_f32, &sums}) {
    for (const CallTime& time : network->timing.calls) {
      const OpCall& call = network->compiled.program.calls[static_cast<std::size_t>(time.call)];
      ceilings.call_seconds = std::min(ceilings.call_seconds, time.seconds);
      if (call.op.kind == OpKind::add)
        ceilings.bytes_per_second =
            std::max(ceilings.bytes_per_second, static_cast<double>(num_operand_bytes(call.op)) / time.seconds);
    }
  }
  return ceilings;
}

}  // namespace trainer
