#include "cuda/kernels/transpose.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

/// Transposes the (rows, columns) matrix of each image.
std::unique_ptr<Kernel> make_transpose_kernel(const Op& op, std::int64_t rows, std::int64_t columns,
                                              const CudaContext& context) {
  return make_kernel([rows, columns, type = op.inputs[0].dtype, images = op.inputs[0].shape[0],
                      &stream = context.stream](const OperandAddresses& addresses) {
    transpose(type, input(addresses, 0), output(addresses, 0), images, rows, columns, stream);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_flatten_kernel(const Op& op, CudaContext& context) {
  const Shape& image = op.inputs[0].shape;
  return make_transpose_kernel(op, image[1] * image[2], image[3], context);
}

std::unique_ptr<Kernel> make_flatten_backward_kernel(const Op& op, CudaContext& context) {
  const Shape& image = op.outputs[0].shape;
  return make_transpose_kernel(op, image[3], image[1] * image[2], context);
}

}  // namespace trainer::cuda
