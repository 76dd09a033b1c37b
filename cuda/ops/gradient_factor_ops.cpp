#include "cuda/kernels/gradient_factor.h"

#include <vector>

#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

/// Of inputs from `first` on, without their addresses.
std::vector<GradientView> views_of(const Op& op, std::size_t first) {
  std::vector<GradientView> gradients;
  for (std::size_t i = first; i < op.inputs.size(); ++i)
    gradients.push_back({nullptr, op.inputs[i].num_elements(), op.inputs[i].dtype});
  return gradients;
}

}  // namespace

std::unique_ptr<Kernel> make_gradient_squares_kernel(const Op& op, CudaContext& context) {
  return make_kernel([gradients = views_of(op, 0), is_exact = attributes_of<GradientSquaresAttributes>(op).exact,
                      &stream = context.stream](const OperandAddresses& addresses) mutable {
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].data = addresses.inputs[i];
    if (is_exact)
      exact_gradient_squares(gradients, output<std::int64_t>(addresses, 0), addresses.workspace, stream);
    else
      gradient_squares(gradients, output<double>(addresses, 0), addresses.workspace, stream);
  });
}

std::unique_ptr<Kernel> make_gradient_factor_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<GradientFactorAttributes>(op);
  const std::size_t first = attributes.scaled ? 1 : 0;
  const bool is_given_squares = op.inputs[first].dtype == DType::f64, is_exact = op.inputs[first].dtype == DType::i64;
  return make_kernel([gradients = views_of(op, first), attributes = attributes, first, is_given_squares, is_exact,
                      &stream = context.stream](const OperandAddresses& addresses) mutable {
    const double* const loss_scale = attributes.scaled ? input<double>(addresses, 0) : nullptr;
    auto* const factor = output<float>(addresses, 0);
    if (is_given_squares) {
      const double* const squares = input<double>(addresses, static_cast<int>(first));
      return gradient_factor_of_squares(squares, attributes, loss_scale, factor, stream);
    }
    if (is_exact) {
      const auto* const squares = input<std::int64_t>(addresses, static_cast<int>(first));
      return gradient_factor_of_exact_squares(squares, attributes, loss_scale, factor, stream);
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].data = addresses.inputs[first + i];
    gradient_factor(gradients, attributes, loss_scale, factor, addresses.workspace, stream);
  });
}

}  // namespace trainer::cuda
