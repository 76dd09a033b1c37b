#include "cuda/kernels/dropout.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

std::unique_ptr<Kernel> make_drop_kernel(const Op& op, const CudaContext& context) {
  const auto& attributes = attributes_of<DropoutAttributes>(op);
  if (attributes.all_columns > 0 || attributes.sample_rows > 0) {
    const TensorType& type = op.inputs[0];
    const std::int64_t own = type.shape[-1], rows = type.num_elements() / own;
    const DropoutPart part{.own_columns = own,
                           .all_columns = attributes.all_columns > 0 ? attributes.all_columns : own,
                           .first_column = attributes.first_column,
                           .sample_rows = attributes.sample_rows > 0 ? attributes.sample_rows : rows / type.shape[0],
                           .first_row = attributes.first_row};
    return make_kernel([rule = dropout_rule(attributes.p), philox_stream = attributes.stream, scalars = context.scalars,
                        dtype = type.dtype, part, rows, &stream = context.stream](const OperandAddresses& addresses) {
      dropout_of_part(dtype, philox_stream, rule.threshold, rule.scale, scalars, input(addresses, 0),
                      output(addresses, 0), part, rows, stream);
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
