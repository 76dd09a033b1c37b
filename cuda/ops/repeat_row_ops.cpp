#include "cuda/kernels/repeat_row.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_repeat_row_kernel(const Op& op, CudaContext& context) {
  return make_kernel([y = op.outputs[0], &stream = context.stream](const OperandAddresses& addresses) {
    repeat_row(y.dtype, input(addresses, 0), output(addresses, 0), y.shape[0], y.shape[1], stream);
  });
}

std::unique_ptr<Kernel> make_sum_rows_kernel(const Op& op, CudaContext& context) {
  return make_kernel([x = op.inputs[0], &stream = context.stream](const OperandAddresses& addresses) {
    sum_rows(x.dtype, input(addresses, 0), output(addresses, 0), x.shape[0], x.shape[1], stream);
  });
}

}  // namespace trainer::cuda
