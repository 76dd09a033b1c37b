#include "cuda/kernels/glu.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {
namespace {

/// What is behind the first half of a packed operand's first row.
template <typename Pointer>
Pointer second_half(DType type, Pointer packed, std::int64_t columns) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  return static_cast<Byte*>(packed) + columns * static_cast<std::int64_t>(size_of(type));
}

}  // namespace

std::unique_ptr<Kernel> make_glu_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<GluAttributes>(op), layout = glu_layout(op), type = op.inputs[0].dtype,
                      &stream = context.stream](const OperandAddresses& addresses) {
    const void* const gate = input(addresses, 0);
    const void* const up = layout.packed ? second_half(type, gate, layout.columns) : input(addresses, 1);
    glu_forward(type, attributes, layout, gate, up, output(addresses, 0), stream);
  });
}

std::unique_ptr<Kernel> make_glu_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<GluAttributes>(op), layout = glu_layout(op), type = op.inputs[0].dtype,
                      &stream = context.stream](const OperandAddresses& addresses) {
    const void* const gate = input(addresses, 1);
    const void* const up = layout.packed ? second_half(type, gate, layout.columns) : input(addresses, 2);
    void* const dgate = output(addresses, 0);
    void* const dup = layout.packed ? second_half(type, dgate, layout.columns) : output(addresses, 1);
    glu_backward(type, attributes, layout, input(addresses, 0), gate, up, dgate, dup, stream);
  });
}

}  // namespace trainer::cuda
