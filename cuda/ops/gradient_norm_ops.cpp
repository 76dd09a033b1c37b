#include "cuda/kernels/gradient_norm.h"

#include <vector>

#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_gradient_norm_kernel(const Op& op, CudaContext& context) {
  std::vector<GradientView> gradients;
  for (const TensorType& gradient : op.inputs) gradients.push_back({nullptr, gradient.num_elements()});
  return make_kernel([gradients = std::move(gradients), clip_norm = attributes_of<GradientNormAttributes>(op).clip_norm,
                      type = op.inputs[0].dtype, stream = context.stream](const OperandAddresses& addresses) mutable {
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].data = addresses.inputs[i];
    gradient_norm(type, gradients, clip_norm, output<float>(addresses, 0), addresses.workspace, stream);
  });
}

}  // namespace trainer::cuda
