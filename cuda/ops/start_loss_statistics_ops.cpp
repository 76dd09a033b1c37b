#include "cuda/kernels/loss_parts.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_start_loss_statistics_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<LossStatisticsAttributes>(op),
                      &stream = context.stream](const OperandAddresses& addresses) {
    start_loss_statistics(modified_input<double>(addresses, 0), attributes.num_terms, attributes.keeps_non_finite,
                          stream);
  });
}

}  // namespace trainer::cuda
