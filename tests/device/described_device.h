#pragma once

#include <string>

#include "engine/device/device.h"

namespace trainer {

/// A device that is only described: no op needs a workspace, so that bytes can be worked out by hand, unless
/// `convolution_workspace` says what conv2d and its gradients need.
class DescribedDevice : public DeviceModel {
 public:
  explicit DescribedDevice(std::int64_t convolution_workspace = 0) : convolution_workspace_(convolution_workspace) {}

  std::string kind() const override { return "described"; }
  std::string name() const override { return "described device"; }
  std::int64_t workspace_bytes(const Op& op) const override {
    return std::holds_alternative<Conv2dAttributes>(op.attributes) ? convolution_workspace_ : 0;
  }
  std::vector<NamedBytes> outside_allocator() const override { return {}; }

 private:
  std::int64_t convolution_workspace_;
};

/// `num_train` images of the given shape, or features where the shape has one dimension.
inline DataDescription described_data(const Shape& sample, std::int64_t num_outputs, std::int64_t num_train,
                                      std::int64_t num_validation = 0) {
  DataDescription data;
  InputDescription& input = data.inputs.emplace_back();
  input.type = {sample.rank() == 3 ? DType::u8 : DType::f32, sample};
  data.num_outputs = num_outputs;
  data.num_train = num_train;
  data.num_validation = num_validation;
  if (sample.rank() == 3) {
    input.mean.assign(static_cast<std::size_t>(sample[2]), 0.5F);
    input.std.assign(static_cast<std::size_t>(sample[2]), 0.25F);
  }
  return data;
}

}  // namespace trainer
