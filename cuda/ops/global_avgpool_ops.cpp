#include "cuda/kernels/global_avgpool.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_global_avgpool_kernel(const Op& op, CudaContext& context) {
  return make_kernel([x = op.inputs[0], &stream = context.stream](const OperandAddresses& addresses) {
    global_avgpool_forward(x.dtype, input(addresses, 0), output(addresses, 0), x.shape[0], x.shape[1] * x.shape[2],
                           x.shape[3], stream);
  });
}

std::unique_ptr<Kernel> make_global_avgpool_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([dx = op.outputs[0], &stream = context.stream](const OperandAddresses& addresses) {
    global_avgpool_backward(dx.dtype, input(addresses, 0), output(addresses, 0), dx.shape[0], dx.shape[1] * dx.shape[2],
                            dx.shape[3], stream);
  });
}

}  // namespace trainer::cuda
