#include "cuda/kernels/cached_attention.h"
#include "cuda/ops/attention_call.h"
#include "cuda/ops/attention_sizes.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

/// Of q, k and v or their gradients: one operand from `first` on where they are packed, else three.
struct OperandPlaces {
  void *q, *k, *v;

  OperandPlaces(const AttentionShape& shape, DType type, bool is_packed, std::span<void* const> operands) {
    q = k = v = operands[0];
    if (!is_packed) {
      k = operands[1];
      v = operands[2];
      return;
    }
    const auto element_bytes = static_cast<std::int64_t>(size_of(type));
    k = static_cast<std::byte*>(q) + shape.heads * shape.width * element_bytes;
    v = static_cast<std::byte*>(k) + shape.kv_heads * shape.width * element_bytes;
  }
};

OperandPlaces places_of(const Op& op, std::span<void* const> operands) {
  return {attention_shape(op), op.inputs[0].dtype, is_packed_attention(op), operands};
}

/// Of attention or its backward op, whose queries, keys and values lie at `from`.
AttentionOperands operands_of(const Op& op, const OperandPlaces& from, const StepScalars* scalars,
                              const OperandAddresses& addresses) {
  const int spans = spans_position(op);
  return {.q = from.q,
          .k = from.k,
          .v = from.v,
          .scalars = scalars,
          .spans = spans < 0 ? nullptr : input<std::int32_t>(addresses, spans),
          .workspace = addresses.workspace};
}

/// cuDNN's attention for `op`; null: own kernels serve.
std::shared_ptr<FusedAttention> fused_attention(const Op& op, CudaContext& context) {
  AttentionPlanner* const planner = context.library == nullptr ? nullptr : context.library->attention_planner();
  if (planner == nullptr) return nullptr;
  const std::optional<AttentionCall> call = attention_call(op, context.deterministic);
  if (!call || !planner->workspace_bytes(*call)) return nullptr;
  return context.library->prepare_attention(*call);
}

}  // namespace

std::unique_ptr<Kernel> make_attention_kernel(const Op& op, CudaContext& context) {
  if (const auto fused = fused_attention(op, context)) {
    return make_kernel([op, fused, &stream = context.stream](const OperandAddresses& addresses) {
      const OperandPlaces from = places_of(op, addresses.inputs);
      fused->run({.q = from.q,
                  .k = from.k,
                  .v = from.v,
                  .y = output(addresses, 0),
                  .lse = output<float>(addresses, 1),
                  .workspace = addresses.workspace},
                 stream);
    });
  }
  return make_kernel([op, sizes = attention_sizes(op), scalars = context.scalars,
                      &stream = context.stream](const OperandAddresses& addresses) {
    const OperandPlaces from = places_of(op, addresses.inputs);
    attention_forward(op.inputs[0].dtype, operands_of(op, from, scalars, addresses), output(addresses, 0),
                      output<float>(addresses, 1), sizes, stream);
  });
}

std::unique_ptr<Kernel> make_attention_backward_kernel(const Op& op, CudaContext& context) {
  const int lse = static_cast<int>(op.inputs.size()) - 1;
  if (const auto fused = fused_attention(op, context)) {
    return make_kernel([op, lse, fused, &stream = context.stream](const OperandAddresses& addresses) {
      const OperandPlaces from = places_of(op, addresses.inputs.subspan(1)), to = places_of(op, addresses.outputs);
      fused->run({.q = from.q,
                  .k = from.k,
                  .v = from.v,
                  .y = modified_input(addresses, lse - 1),
                  .lse = modified_input<float>(addresses, lse),
                  .dy = input(addresses, 0),
                  .dq = to.q,
                  .dk = to.k,
                  .dv = to.v,
                  .workspace = addresses.workspace},
                 stream);
    });
  }
  return make_kernel([op, lse, sizes = attention_sizes(op), scalars = context.scalars,
                      &stream = context.stream](const OperandAddresses& addresses) {
    const OperandPlaces from = places_of(op, addresses.inputs.subspan(1)), to = places_of(op, addresses.outputs);
    attention_backward(op.inputs[0].dtype, operands_of(op, from, scalars, addresses),
                       {.dy = input(addresses, 0),
                        .y = input(addresses, lse - 1),
                        .lse = input<float>(addresses, lse),
                        .dq = to.q,
                        .dk = to.k,
                        .dv = to.v},
                       sizes, stream);
  });
}

std::unique_ptr<Kernel> make_cached_attention_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = cached_attention_shape(op), type = op.outputs[0].dtype, behind = num_attended(op),
                      sizes = cached_attention_sizes(op), &stream = context.stream](const OperandAddresses& addresses) {
    const OperandPlaces from(shape, type, behind == 1, addresses.inputs);
    cached_attention(type,
                     {.q = from.q,
                      .k = from.k,
                      .v = from.v,
                      .positions = input<std::int32_t>(addresses, behind),
                      .keys = modified_input(addresses, behind + 1),
                      .values = modified_input(addresses, behind + 2)},
                     output(addresses, 0), sizes, stream);
  });
}

}  // namespace trainer::cuda
