#include "cuda/kernels/dropout.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

std::unique_ptr<Kernel> make_drop_kernel(const Op& op, const CudaContext& context) {
  const auto& attributes = attributes_of<DropoutAttributes>(op);
  if (attributes.all_columns > 0) {
    const TensorType& type = op.inputs[0];
    const DropoutColumns columns{type.shape[-1], attributes.all_columns, attributes.first_column};
    const std::int64_t rows = type.num_elements() / columns.own;
    return make_kernel([rule = dropout_rule(attributes.p), philox_stream = attributes.stream, scalars = context.scalars,
                        dtype = type.dtype, columns, rows, rows_of_sample = rows / type.shape[0],
                        &stream = context.stream](const OperandAddresses& addresses) {
      dropout_of_columns(dtype, philox_stream, rule.threshold, rule.scale, scalars, input(addresses, 0),
                         output(addresses, 0), columns, rows_of_sample, rows, stream);
    });
  }
  return make_kernel([rule = dropout_rule(attributes.p), philox_stream = attributes.stream, scalars = context.scalars,
                      type = op.inputs[0].dtype, count = op.inputs[0].num_elements(),
                      of_sample = op.inputs[0].num_elements() / op.inputs[0].shape[0],
                      &stream = context.stream](const OperandAddresses& addresses) {
    dropout(type, philox_stream, rule.threshold, rule.scale, scalars, input(addresses, 0), output(addresses, 0),
            of_sample, count, stream);
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
