#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"
#include "engine/ops/glu.h"

namespace trainer::cuda {

/// y (rows, columns) = function(gate) · up, whose rows are layout.row_elements apart; y may be gate where these are
/// `columns`. Bytes: three tensors once. FLOPs: some 10 an element.
void glu_forward(DType type, const GluAttributes& attributes, const GluLayout& layout, const void* gate, const void* up,
                 void* y, Stream stream);

/// dgate = dy · up · function'(gate) and dup = dy · function(gate), in rows as gate's and up's; dgate may be gate or,
/// where rows lie one behind the other, dy, and dup may be up. Bytes: five tensors once. FLOPs: some 20 an element.
void glu_backward(DType type, const GluAttributes& attributes, const GluLayout& layout, const void* dy,
                  const void* gate, const void* up, void* dgate, void* dup, Stream stream);

}  // namespace trainer::cuda
