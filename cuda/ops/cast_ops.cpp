#include "cuda/kernels/cast.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_cast_kernel(const Op& op, CudaContext& context) {
  return make_kernel([from = op.inputs[0].dtype, to = op.outputs[0].dtype, count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    cast(from, input(addresses, 0), to, output(addresses, 0), count, stream);
  });
}

}  // namespace trainer::cuda
