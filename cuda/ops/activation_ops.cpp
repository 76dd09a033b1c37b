#include "cuda/kernels/activation.h"
#include "cuda/ops/channel_place.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_activation_kernel(const Op& op, CudaContext& context) {
  if (op.placed_at >= 0)
    return make_kernel([attributes = attributes_of<ActivationAttributes>(op), place = ChannelPlace(op),
                        &stream = context.stream](const OperandAddresses& addresses) {
      place.copy_others(addresses, stream);
      placed_activation_forward(place.type, attributes, input(addresses, 0), place.address(addresses), place.rows,
                                place.channels, place.range.row_channels, stream);
    });
  return make_kernel([attributes = attributes_of<ActivationAttributes>(op), type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    activation_forward(type, attributes, input(addresses, 0), output(addresses, 0), count, stream);
  });
}

std::unique_ptr<Kernel> make_activation_backward_kernel(const Op& op, CudaContext& context) {
  return make_kernel([attributes = attributes_of<ActivationAttributes>(op), type = op.inputs[0].dtype,
                      count = op.inputs[0].num_elements(),
                      &stream = context.stream](const OperandAddresses& addresses) {
    activation_backward(type, attributes, input(addresses, 0), input(addresses, 1), output(addresses, 0), count,
                        stream);
  });
}

}  // namespace trainer::cuda
