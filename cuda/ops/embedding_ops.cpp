#include "cuda/kernels/embedding.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

EmbeddingShape embedding_shape(const Op& op, const TensorType& indices, std::int64_t dim) {
  const EmbeddingRows own = embedding_rows(op);
  return {.places = indices.num_elements(), .first = own.first, .num = own.num, .all = own.all, .dim = dim};
}

PositionEmbeddingShape position_shape(const TensorType& x, const TensorType& table) {
  return {x.shape[0], x.shape[1], x.shape[2], table.shape[0]};
}

}  // namespace

std::unique_ptr<Kernel> make_embedding_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = embedding_shape(op, op.inputs[0], op.inputs[1].shape[1]), type = op.outputs[0].dtype,
                      table_type = op.inputs[1].dtype, &stream = context.stream](const OperandAddresses& addresses) {
    embedding_forward(type, table_type, input<std::int32_t>(addresses, 0), input(addresses, 1), output(addresses, 0),
                      shape, stream);
  });
}

std::unique_ptr<Kernel> make_embedding_backward_kernel(const Op& op, CudaContext& context) {
  const bool adds = attributes_of<EmbeddingAttributes>(op).adds;
  const TensorType& table = adds ? op.inputs[2] : op.outputs[0];
  return make_kernel([adds, shape = embedding_shape(op, op.inputs[1], table.shape[1]), type = op.inputs[0].dtype,
                      table_type = table.dtype, &stream = context.stream](const OperandAddresses& addresses) {
    void* const dtable = adds ? modified_input(addresses, 2) : output(addresses, 0);
    embedding_backward(type, table_type, input(addresses, 0), input<std::int32_t>(addresses, 1), dtable, adds, shape,
                       stream);
  });
}

std::unique_ptr<Kernel> make_position_embedding_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = position_shape(op.inputs[0], op.inputs[1]), type = op.inputs[0].dtype,
                      has_places = op.inputs.size() > 2, &stream = context.stream](const OperandAddresses& addresses) {
    const auto* const places = has_places ? input<std::int32_t>(addresses, 2) : nullptr;
    position_embedding_forward(type, input(addresses, 0), input<float>(addresses, 1), places, output(addresses, 0),
                               shape, stream);
  });
}

std::unique_ptr<Kernel> make_position_embedding_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([shape = position_shape(op.inputs[0], op.outputs[0]), type = op.inputs[0].dtype,
                      &stream = context.stream](const OperandAddresses& addresses) {
    position_embedding_backward(type, input(addresses, 0), output<float>(addresses, 0), shape, stream);
  });
}

}  // namespace trainer::cuda
