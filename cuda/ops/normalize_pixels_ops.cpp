#include "cuda/kernels/normalize_pixels.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_normalize_pixels_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<NormalizePixelsAttributes>(op);
  const std::int64_t channels = op.inputs[0].shape[-1];
  require_internal(static_cast<std::int64_t>(attributes.scale.size()) == channels &&
                       attributes.offset.size() == attributes.scale.size(),
                   "pixels are normalised by one scale and offset a channel");
  if (mixes_pixels(op)) {
    const Shape& shape = op.inputs[0].shape;
    return make_kernel([attributes, type = op.outputs[0].dtype, images = MixedImages{shape[0], shape[1], shape[2]},
                        &stream = context.stream](const OperandAddresses& addresses) {
      normalize_mixed_pixels(type, input<std::uint8_t>(addresses, 0), input<MixedSample>(addresses, 1),
                             output(addresses, 0), images, attributes.scale, attributes.offset, stream);
    });
  }
  return make_kernel([attributes, type = op.outputs[0].dtype, num_pixels = op.inputs[0].num_elements() / channels,
                      &stream = context.stream](const OperandAddresses& addresses) {
    normalize_pixels(type, input<std::uint8_t>(addresses, 0), output(addresses, 0), num_pixels, attributes.scale,
                     attributes.offset, stream);
  });
}

}  // namespace trainer::cuda
