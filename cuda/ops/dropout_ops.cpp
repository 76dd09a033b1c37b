#include <algorithm>

#include "cuda/kernels/dropout.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

std::unique_ptr<Kernel> make_drop_kernel(const Op& op, const CudaContext& context) {
  const auto& attributes = attributes_of<DropoutAttributes>(op);
  // uniform(i) ≥ p compares word / 2^24 with p in f32, where p = 1 drops everything.
  const float p = static_cast<float>(attributes.p);
  auto threshold = static_cast<std::uint32_t>(std::clamp(static_cast<double>(p) * 16777216.0, 0.0, 16777216.0));
  while (threshold < 16777216U && static_cast<float>(threshold) * (1.0F / 16777216.0F) < p) ++threshold;
  const float scale = p < 1 ? static_cast<float>(1 / (1 - attributes.p)) : 0;
  return make_kernel([threshold, scale, philox_stream = attributes.stream, scalars = context.scalars,
                      type = op.inputs[0].dtype, count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    dropout(type, philox_stream, threshold, scale, scalars, input(addresses, 0), output(addresses, 0), count, stream);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_dropout_kernel(const Op& op, CudaContext& context) {
  return make_drop_kernel(op, context);
}
std::unique_ptr<Kernel> make_dropout_backward_kernel(const Op& op, CudaContext& context) {
  return make_drop_kernel(op, context);
}

}  // namespace trainer::cuda
