#include <utility>
#include <vector>

#include "cuda/kernels/copy_channels.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_concat_kernel(const Op& op, CudaContext& context) {
  const TensorType& y = op.outputs[0];
  std::vector<std::int64_t> channels;
  for (const TensorType& x : op.inputs) channels.push_back(x.shape[-1]);
  return make_kernel([channels = std::move(channels), type = y.dtype, y_channels = y.shape[-1],
                      rows = y.num_elements() / y.shape[-1],
                      &stream = context.stream](const OperandAddresses& addresses) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < channels.size(); ++i) {
      copy_channels(type, addresses.inputs[i], {.row_channels = channels[i]}, output(addresses, 0),
                    {.row_channels = y_channels, .first = first}, rows, channels[i], stream);
      first += channels[i];
    }
  });
}

std::unique_ptr<Kernel> make_channel_slice_kernel(const Op& op, CudaContext& context) {
  const TensorType &x = op.inputs[0], &y = op.outputs[0];
  const ChannelRange from{x.shape[-1], attributes_of<ChannelSliceAttributes>(op).first};
  return make_kernel([from, type = y.dtype, channels = y.shape[-1], rows = y.num_elements() / y.shape[-1],
                      &stream = context.stream](const OperandAddresses& addresses) {
    copy_channels(type, input(addresses, 0), from, output(addresses, 0), {.row_channels = channels}, rows, channels,
                  stream);
  });
}

std::unique_ptr<Kernel> make_channel_slice_backward_kernel(const Op& op, CudaContext& context) {
  const TensorType &dy = op.inputs[0], &dx = op.outputs[0];
  const ChannelRange to{dx.shape[-1], attributes_of<ChannelSliceAttributes>(op).first};
  return make_kernel([to, type = dy.dtype, channels = dy.shape[-1], rows = dy.num_elements() / dy.shape[-1],
                      &stream = context.stream](const OperandAddresses& addresses) {
    expand_channels(type, input(addresses, 0), output(addresses, 0), to, rows, channels, stream);
  });
}

}  // namespace trainer::cuda
