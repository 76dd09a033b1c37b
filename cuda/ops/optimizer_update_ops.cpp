#include "cuda/kernels/optimizer_update.h"

#include <vector>

#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

UpdateOperands update_operands(const OperandAddresses& addresses, bool factored, const StepScalars* scalars) {
  return {.statistics = input<double>(addresses, 0),
          .factor = factored ? input<float>(addresses, 1) : nullptr,
          .scalars = scalars};
}

/// One Tensor for every `operands_each` operands, with its count.
template <typename Tensor>
std::vector<Tensor> tensors_of(const Op& op, int first, int operands_each) {
  std::vector<Tensor> tensors;
  for (auto i = static_cast<std::size_t>(first); i < op.inputs.size(); i += static_cast<std::size_t>(operands_each)) {
    tensors.emplace_back();
    tensors.back().count = op.inputs[i].num_elements();
  }
  return tensors;
}

/// Of the weights; an op without parameters has none.
DType weight_type(const Op& op, int first) {
  const auto position = static_cast<std::size_t>(first);
  return position < op.inputs.size() ? op.inputs[position].dtype : DType::f32;
}

// Until the other formats have kernels.
void require_plain(const UpdateFormat& format) {
  require_internal(format == UpdateFormat{.factored = format.factored}, "the formats of an update have kernels");
}

}  // namespace

std::unique_ptr<Kernel> make_sgd_update_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<SgdUpdateAttributes>(op);
  require_plain(attributes.format);
  const int first = first_parameter_operand(attributes.format);
  const bool has_momentum = attributes.momentum > 0;
  const int operands_each = has_momentum ? 3 : 2;
  const SgdRule rule{attributes.momentum, attributes.nesterov, attributes.weight_decay};
  return make_kernel([=, factored = attributes.format.factored,
                      tensors = tensors_of<SgdTensor>(op, first, operands_each), type = weight_type(op, first),
                      scalars = context.scalars, stream = context.stream](const OperandAddresses& addresses) mutable {
    int at = first;
    for (SgdTensor& tensor : tensors) {
      tensor.weight = modified_input(addresses, at);
      tensor.gradient = input(addresses, at + 1);
      if (has_momentum) tensor.momentum = modified_input<float>(addresses, at + 2);
      at += operands_each;
    }
    sgd_update(type, update_operands(addresses, factored, scalars), tensors, rule, stream);
  });
}

std::unique_ptr<Kernel> make_adam_update_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<AdamUpdateAttributes>(op);
  require_plain(attributes.format);
  const int first = first_parameter_operand(attributes.format);
  const AdamRule rule{attributes.beta1, attributes.beta2, attributes.eps, attributes.weight_decay,
                      attributes.decoupled};
  return make_kernel([first, rule, factored = attributes.format.factored,
                      tensors = tensors_of<AdamTensor>(op, first, 4), type = weight_type(op, first),
                      scalars = context.scalars, stream = context.stream](const OperandAddresses& addresses) mutable {
    int at = first;
    for (AdamTensor& tensor : tensors) {
      tensor.weight = modified_input(addresses, at);
      tensor.gradient = input(addresses, at + 1);
      tensor.first_moment = modified_input<float>(addresses, at + 2);
      tensor.second_moment = modified_input<float>(addresses, at + 3);
      at += 4;
    }
    adam_update(type, update_operands(addresses, factored, scalars), tensors, rule, stream);
  });
}

}  // namespace trainer::cuda
