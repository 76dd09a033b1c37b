#include "cuda/ops/kernels.h"
#include "cuda/ops/linear_call.h"

namespace trainer::cuda {

namespace {

MatmulOperands operands_of(const OperandAddresses& addresses) {
  return {.a = input(addresses, 0),
          .b = input(addresses, 1),
          .c = addresses.outputs.empty() ? modified_input(addresses, 2) : output(addresses, 0),
          .workspace = addresses.workspace};
}

/// A kernel that is one product; `place` adds the operands beyond the first two inputs and the first output.
template <typename Place>
std::unique_ptr<Kernel> make_product_kernel(const Op& op, CudaContext& context, Place place) {
  MatmulCall call = linear_call(op, context.tf32);
  call.alignment = context.matrix_alignment;
  return make_kernel(
      [matmul = context.library->prepare(call), &stream = context.stream, place](const OperandAddresses& addresses) {
        MatmulOperands operands = operands_of(addresses);
        place(addresses, operands);
        matmul->run(operands, stream);
      });
}

}  // namespace

std::unique_ptr<Kernel> make_linear_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<LinearAttributes>(op);
  return make_product_kernel(op, context,
                             [has_bias = attributes.bias, keeps = attributes.keeps](const OperandAddresses& addresses,
                                                                                    MatmulOperands& operands) {
                               if (has_bias) operands.bias = modified_input(addresses, 2);
                               if (keeps) operands.aux = output(addresses, 1);
                             });
}

std::unique_ptr<Kernel> make_linear_backward_input_kernel(const Op& op, CudaContext& context) {
  const bool reads_kept = attributes_of<LinearAttributes>(op).through != InputActivation::none;
  return make_product_kernel(op, context, [reads_kept](const OperandAddresses& addresses, MatmulOperands& operands) {
    if (reads_kept) operands.aux = modified_input(addresses, 2);
  });
}

std::unique_ptr<Kernel> make_linear_backward_weight_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<LinearAttributes>(op);
  return make_product_kernel(op, context,
                             [has_bias = attributes.bias, adds = attributes.adds](const OperandAddresses& addresses,
                                                                                  MatmulOperands& operands) {
                               if (has_bias) operands.bias = adds ? modified_input(addresses, 3) : output(addresses, 1);
                             });
}

}  // namespace trainer::cuda
