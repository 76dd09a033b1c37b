#include "cuda/kernels/optimizer_update.h"

#include <vector>

#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

/// The tensors of an update, found again in the addresses of each call.
class UpdateCall {
 public:
  UpdateCall(const Op& op, const UpdateFormat& format, int operands_each, bool eight_bit, const CudaContext& context)
      : format_(format), scalars_(context.scalars) {
    types_ = {.rounds_weights = !format.random_streams.empty(),
              .gradients = format.gradients,
              .copies = format.copies.value_or(DType::f32),
              .eight_bit = eight_bit};
    require_internal(format.first_elements.empty(), "a GPU rounds whole weights");
    num_states_ = operands_each - 2 - (format.copies ? 1 : 0);
    for (auto i = static_cast<std::size_t>(first_parameter_operand(format)); i < op.inputs.size();
         i += static_cast<std::size_t>(operands_each)) {
      UpdateTensor tensor;
      tensor.count = op.inputs[i].num_elements();
      if (types_.rounds_weights) tensor.random_stream = format.random_streams[tensors_.size()];
      tensors_.push_back(tensor);
    }
  }

  const UpdateTypes& types() const { return types_; }

  UpdateOperands operands(const OperandAddresses& addresses) const {
    return {.statistics = modified_input<double>(addresses, 0),
            .factor = format_.factored ? input<float>(addresses, 1) : nullptr,
            .loss_scale = format_.scaled ? input<double>(addresses, 2) : nullptr,
            .scalars = scalars_};
  }

  std::span<const UpdateTensor> tensors(const OperandAddresses& addresses) {
    int at = first_parameter_operand(format_);
    for (UpdateTensor& tensor : tensors_) {
      tensor.weight = modified_input(addresses, at++);
      tensor.gradient = input(addresses, at++);
      if (format_.copies) tensor.copy = modified_input(addresses, at++);
      for (int state = 0; state < num_states_; ++state) tensor.states[state] = modified_input(addresses, at++);
    }
    return tensors_;
  }

 private:
  UpdateFormat format_;
  UpdateTypes types_;
  std::vector<UpdateTensor> tensors_;
  int num_states_ = 0;
  const StepScalars* scalars_;
};

}  // namespace

std::unique_ptr<Kernel> make_sgd_update_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<SgdUpdateAttributes>(op);
  const SgdRule rule{attributes.momentum, attributes.nesterov, attributes.weight_decay, attributes.pace};
  return make_kernel([rule,
                      call = UpdateCall(op, attributes.format, operands_of_a_parameter(attributes), false, context),
                      &stream = context.stream](const OperandAddresses& addresses) mutable {
    sgd_update(call.types(), call.operands(addresses), call.tensors(addresses), rule, stream);
  });
}

std::unique_ptr<Kernel> make_adam_update_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<AdamUpdateAttributes>(op);
  const AdamRule rule{attributes.beta1,        attributes.beta2,     attributes.eps,
                      attributes.weight_decay, attributes.decoupled, attributes.pace};
  return make_kernel(
      [rule,
       call = UpdateCall(op, attributes.format, operands_of_a_parameter(attributes), attributes.eight_bit, context),
       &stream = context.stream](const OperandAddresses& addresses) mutable {
        adam_update(call.types(), call.operands(addresses), call.tensors(addresses), rule, stream);
      });
}

}  // namespace trainer::cuda
