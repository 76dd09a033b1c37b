#pragma once

#include <string>

#include "engine/ops/op.h"
#include "engine/train/onnx/onnx_values.h"

namespace trainer {

// Nodes of ops over images with their channels first, x; what they give has its channels first too.

/// `weight` and, where the op has one, `bias` (else empty) are names of parameters.
std::string onnx_convolution(OnnxValues& values, const Op& op, const std::string& x, const std::string& weight,
                             const std::string& bias);
std::string onnx_transposed_convolution(OnnxValues& values, const Op& op, const std::string& x,
                                        const std::string& weight, const std::string& bias);
std::string onnx_max_pooling(OnnxValues& values, const Op& op, const std::string& x);
std::string onnx_mean_pooling(OnnxValues& values, const Op& op, const std::string& x);
std::string onnx_adaptive_mean_pooling(OnnxValues& values, const Op& op, const std::string& x);
std::string onnx_upsampling(OnnxValues& values, const Op& op, const std::string& x);
std::string onnx_padding(OnnxValues& values, const Op& op, const std::string& x);

}  // namespace trainer
