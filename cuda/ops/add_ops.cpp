#include "cuda/kernels/add.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_add_kernel(const Op& op, CudaContext& context) {
  return make_kernel([relu = attributes_of<AddAttributes>(op).relu, type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    add(type, relu, input(addresses, 0), input(addresses, 1), output(addresses, 0), count, stream);
  });
}

}  // namespace trainer::cuda
