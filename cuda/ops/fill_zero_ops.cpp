#include <vector>

#include "cuda/kernels/fill_zero.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_fill_zero_kernel(const Op& op, CudaContext& context) {
  std::vector<ZeroedTensor> tensors;
  const bool is_wide = size_of(op.inputs[0].dtype) == 8;  // zeros of f64 and i64 are twice as many of f32
  for (const TensorType& tensor : op.inputs) tensors.push_back({nullptr, (is_wide ? 2 : 1) * tensor.num_elements()});
  return make_kernel([tensors = std::move(tensors), type = is_wide ? DType::f32 : op.inputs[0].dtype,
                      &stream = context.stream](const OperandAddresses& addresses) mutable {
    int at = 0;
    for (ZeroedTensor& tensor : tensors) tensor.data = modified_input<std::byte>(addresses, at++);
    fill_zero(type, tensors, stream);
  });
}

}  // namespace trainer::cuda
