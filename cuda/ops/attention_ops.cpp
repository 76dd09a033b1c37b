#include "cuda/ops/attention_sizes.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

/// Of q, k and v or their gradients: one operand from `first` on where they are packed, else three.
struct OperandPlaces {
  void *q, *k, *v;

  OperandPlaces(const Op& op, std::span<void* const> operands, std::size_t first) {
    q = k = v = operands[first];
    if (!is_packed_attention(op)) {
      k = operands[first + 1];
      v = operands[first + 2];
      return;
    }
    const AttentionShape shape = attention_shape(op);
    const auto element_bytes = static_cast<std::int64_t>(size_of(op.inputs[0].dtype));
    k = static_cast<std::byte*>(q) + shape.heads * shape.width * element_bytes;
    v = static_cast<std::byte*>(k) + shape.kv_heads * shape.width * element_bytes;
  }
};

}  // namespace

std::unique_ptr<Kernel> make_attention_kernel(const Op& op, CudaContext& context) {
  return make_kernel([op, sizes = attention_sizes(op), scalars = context.scalars,
                      &stream = context.stream](const OperandAddresses& addresses) {
    const OperandPlaces from(op, addresses.inputs, 0);
    attention_forward(op.inputs[0].dtype,
                      {.q = from.q, .k = from.k, .v = from.v, .scalars = scalars, .workspace = addresses.workspace},
                      output(addresses, 0), output<float>(addresses, 1), sizes, stream);
  });
}

std::unique_ptr<Kernel> make_attention_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([op, sizes = attention_sizes(op), scalars = context.scalars,
                      &stream = context.stream](const OperandAddresses& addresses) {
    const OperandPlaces from(op, addresses.inputs, 1), to(op, addresses.outputs, 0);
    const int lse = static_cast<int>(op.inputs.size()) - 1;
    attention_backward(op.inputs[0].dtype,
                       {.q = from.q, .k = from.k, .v = from.v, .scalars = scalars, .workspace = addresses.workspace},
                       {.dy = input(addresses, 0),
                        .y = input(addresses, lse - 1),
                        .lse = input<float>(addresses, lse),
                        .dq = to.q,
                        .dk = to.k,
                        .dv = to.v},
                       sizes, stream);
  });
}

}  // namespace trainer::cuda
