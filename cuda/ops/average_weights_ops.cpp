#include <vector>

#include "cuda/kernels/average_weights.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_average_weights_kernel(const Op& op, CudaContext& context) {
  std::vector<AveragedTensor> tensors;
  for (std::size_t i = 0; i < op.inputs.size(); i += 2)
    tensors.push_back({nullptr, nullptr, op.inputs[i].num_elements()});
  return make_kernel([tensors = std::move(tensors), scalars = context.scalars,
                      &stream = context.stream](const OperandAddresses& addresses) mutable {
    int at = 0;
    for (AveragedTensor& tensor : tensors) {
      tensor.weight = input<float>(addresses, at++);
      tensor.average = modified_input<float>(addresses, at++);
    }
    average_weights(tensors, scalars, stream);
  });
}

}  // namespace trainer::cuda
