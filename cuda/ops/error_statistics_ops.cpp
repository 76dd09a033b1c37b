#include "cuda/kernels/numeric_loss.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_error_statistics_kernel(const Op& op, CudaContext& context) {
  return make_kernel([type = op.inputs[0].dtype, count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    error_statistics(type,
                     {.prediction = input(addresses, 0),
                      .targets = input(addresses, 1),
                      .statistics = modified_input<double>(addresses, 2),
                      .workspace = addresses.workspace},
                     count, stream);
  });
}

}  // namespace trainer::cuda
