#include <cstddef>

#include "cuda/kernels/activation.h"
#include "cuda/kernels/bias_gradient.h"
#include "cuda/ops/conv2d_call.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

/// What the three ops share: the library's convolution and the parts of the workspace.
class PreparedConvolution {
 public:
  PreparedConvolution(const Op& op, CudaContext& context) : stream_(context.stream) {
    const ConvolutionCall call = convolution_call(op, context.tf32);
    const std::int64_t library_bytes = context.library->convolution_planner().workspace_bytes(call);
    has_library_workspace_ = library_bytes > 0;
    workspace_ = conv2d_workspace(op, library_bytes);
    convolution_ = context.library->prepare(call);
  }

  Stream stream() const { return stream_; }
  void* bias_gradient_workspace(const OperandAddresses& addresses) const {
    if (workspace_.bias_gradient < 0) return nullptr;
    return static_cast<std::byte*>(addresses.workspace) + workspace_.bias_gradient;
  }
  void run(const OperandAddresses& addresses, ConvolutionOperands operands) const {
    operands.workspace = has_library_workspace_ ? addresses.workspace : nullptr;
    convolution_->run(operands, stream_);
  }

 private:
  const Stream& stream_;
  bool has_library_workspace_ = false;
  Conv2dWorkspace workspace_;
  std::unique_ptr<Convolution> convolution_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv2d_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  return make_kernel([convolution = PreparedConvolution(op, context), has_bias = attributes.bias,
                      has_statistics = attributes.statistics, relu_behind = attributes.relu && !attributes.bias,
                      y = op.outputs[0]](const OperandAddresses& addresses) {
    convolution.run(addresses, {.x = modified_input(addresses, 0),
                                .weights = modified_input(addresses, 1),
                                .bias = has_bias ? input(addresses, 2) : nullptr,
                                .y = output(addresses, 0),
                                .sums = has_statistics ? output<float>(addresses, 1) : nullptr,
                                .square_sums = has_statistics ? output<float>(addresses, 2) : nullptr});
    if (relu_behind)
      activation_forward(y.dtype, {.function = Activation::relu}, output(addresses, 0), output(addresses, 0),
                         y.num_elements(), convolution.stream());
  });
}

std::unique_ptr<Kernel> make_conv2d_backward_input_kernel(const Op& op, CudaContext& context) {
  return make_kernel([convolution = PreparedConvolution(op, context)](const OperandAddresses& addresses) {
    convolution.run(
        addresses,
        {.x = output(addresses, 0), .weights = modified_input(addresses, 1), .y = modified_input(addresses, 0)});
  });
}

std::unique_ptr<Kernel> make_conv2d_backward_weight_kernel(const Op& op, CudaContext& context) {
  return make_kernel([convolution = PreparedConvolution(op, context), dy = op.inputs[0],
                      has_bias = op.outputs.size() > 1](const OperandAddresses& addresses) {
    convolution.run(
        addresses,
        {.x = modified_input(addresses, 1), .weights = output(addresses, 0), .y = modified_input(addresses, 0)});
    if (!has_bias) return;
    const std::int64_t columns = dy.shape[3];
    bias_gradient(dy.dtype, input(addresses, 0), output(addresses, 1), dy.num_elements() / columns, columns,
                  convolution.bias_gradient_workspace(addresses), convolution.stream());
  });
}

}  // namespace trainer::cuda
