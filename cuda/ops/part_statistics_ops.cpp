#include "cuda/kernels/part_statistics.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_keep_part_statistics_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<PartStatisticsAttributes>(op),
                      &stream = context.stream](const OperandAddresses& addresses) {
    keep_part_statistics(modified_input<double>(addresses, 0), modified_input<double>(addresses, 1),
                         attributes.num_terms, attributes.part, stream);
  });
}

std::unique_ptr<Kernel> make_sum_part_statistics_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<PartStatisticsAttributes>(op),
                      &stream = context.stream](const OperandAddresses& addresses) {
    sum_part_statistics(modified_input<double>(addresses, 0), modified_input<double>(addresses, 1),
                        attributes.num_terms, attributes.num_parts, stream);
  });
}

}  // namespace trainer::cuda
