#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/library/matmul.h"

namespace trainer::cuda {

/// The operands of a product in host memory; outputs are as many bytes.
struct ProbeOperands {
  std::vector<std::byte> a, b, bias;
  std::int64_t c_bytes = 0, aux_bytes = 0, workspace_bytes = 0;
};

/// The product with its epilogue by the library; null where that does not fuse it.
using PrepareFused = std::function<std::unique_ptr<Matmul>(const MatmulCall&)>;
/// Runs a product on the device, and brings C back. Operands without bytes are null.
using RunProbe = std::function<std::vector<std::byte>(Matmul&, const ProbeOperands&)>;

/// Whether NaN passes every ReLU that the library fuses into products, as Note [Lost weights] in
/// engine/ops/loss_statistics.h and the CPU would have it: asks by a small product for each epilogue with ReLU and each
/// type. True where the library fuses none.
bool relu_keeps_nan(const PrepareFused& prepare, const RunProbe& run);

}  // namespace trainer::cuda
