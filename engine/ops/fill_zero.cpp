#include "engine/ops/fill_zero.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/op_definition.h"

namespace trainer {

Op fill_zero_op(std::span<const TensorType> tensors) {
  return {OpKind::fill_zero, std::monostate{}, {tensors.begin(), tensors.end()}, {}};
}

const OpDefinition fill_zero_definition = {.flops = flops_per_input_element<0>};

}  // namespace trainer
