#include "cuda/kernels/gradient_factor.h"

#include <vector>

#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_gradient_factor_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<GradientFactorAttributes>(op);
  const std::size_t first = attributes.scaled ? 1 : 0;
  std::vector<GradientView> gradients;
  for (std::size_t i = first; i < op.inputs.size(); ++i)
    gradients.push_back({nullptr, op.inputs[i].num_elements(), op.inputs[i].dtype});
  return make_kernel([gradients = std::move(gradients), attributes = attributes, first,
                      &stream = context.stream](const OperandAddresses& addresses) mutable {
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].data = addresses.inputs[first + i];
    gradient_factor(gradients, attributes, attributes.scaled ? input<double>(addresses, 0) : nullptr,
                    output<float>(addresses, 0), addresses.workspace, stream);
  });
}

}  // namespace trainer::cuda
