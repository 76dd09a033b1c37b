#include "cuda/ops/channel_place.h"

namespace trainer::cuda {

void ChannelPlace::copy_others(const OperandAddresses& addresses, Stream stream) const {
  if (!continues || addresses.inputs.back() == addresses.outputs[0]) return;
  const std::int64_t behind = range.first + channels;
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, range.first}, {behind, range.row_channels}}) {
    const ChannelRange others{range.row_channels, begin};
    if (begin < end)
      copy_channels(type, addresses.inputs.back(), others, addresses.outputs[0], others, rows, end - begin, stream);
  }
}

std::unique_ptr<Kernel> make_place_channels_kernel(const Op& op, CudaContext& context) {
  return make_kernel([place = ChannelPlace(op), &stream = context.stream](const OperandAddresses& addresses) {
    place.copy_others(addresses, stream);
    copy_channels(place.type, input(addresses, 0), {.row_channels = place.channels}, output(addresses, 0), place.range,
                  place.rows, place.channels, stream);
  });
}

}  // namespace trainer::cuda
