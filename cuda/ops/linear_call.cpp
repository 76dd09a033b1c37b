#include "cuda/ops/linear_call.h"

#include <array>

#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

std::int64_t rows_of(const TensorType& features) { return features.num_elements() / features.shape[-1]; }

bool is_wider(const TensorType& result, const TensorType& operand) {
  return result.dtype == DType::f32 && operand.dtype != DType::f32;
}

Epilogue forward_epilogue(const LinearAttributes& attributes) {
  if (attributes.gelu) return attributes.bias ? Epilogue::gelu_bias_aux : Epilogue::gelu_aux;
  if (attributes.relu && attributes.keeps) return attributes.bias ? Epilogue::relu_bias_aux : Epilogue::relu_aux;
  if (attributes.relu) return attributes.bias ? Epilogue::relu_bias : Epilogue::relu;
  return attributes.bias ? Epilogue::bias : Epilogue::none;
}

Epilogue backward_epilogue(InputActivation through) {
  switch (through) {
    case InputActivation::none:
      return Epilogue::none;
    case InputActivation::relu:
      return Epilogue::drelu;
    case InputActivation::gelu:
      return Epilogue::dgelu;
  }
  throw InternalError("internal error: a gradient through an activation of no known kind");
}

}  // namespace

MatmulCall linear_call(const Op& op, bool tf32) {
  const auto& attributes = attributes_of<LinearAttributes>(op);
  const TensorType& first = op.inputs[0];
  MatmulCall call{.type = first.dtype, .tf32 = tf32};
  switch (op.kind) {
    case OpKind::linear:
      call.m = rows_of(first);
      call.n = attributes.out;
      call.k = first.shape[-1];
      call.transpose_b = true;
      call.epilogue = forward_epilogue(attributes);
      call.f32_result = is_wider(op.outputs[0], first);
      return call;
    case OpKind::linear_backward_input:
      call.m = rows_of(first);
      call.n = op.outputs[0].shape[-1];
      call.k = attributes.out;
      call.epilogue = backward_epilogue(attributes.through);
      return call;
    case OpKind::linear_backward_weight:
      call.m = attributes.out;
      call.n = op.inputs[1].shape[-1];
      call.k = rows_of(first);
      call.transpose_a = true;
      call.epilogue = attributes.bias ? Epilogue::bias_gradient_a : Epilogue::none;
      call.adds = attributes.adds;
      call.f32_result = is_wider(attributes.adds ? op.inputs[2] : op.outputs[0], first);
      return call;
    default:
      throw InternalError("internal error: an op that is no linear layer's is asked for its product");
  }
}

namespace {

constexpr std::array linear_kinds = {OpKind::linear, OpKind::linear_backward_input, OpKind::linear_backward_weight};

std::int64_t linear_workspace_bytes(const Op& op, const WorkspaceModel& model) {
  MatmulCall call = linear_call(op, model.tf32);
  call.alignment = model.matrix_alignment;
  return model.matmuls != nullptr ? model.matmuls->workspace_bytes(call) : matmul_workspace_bytes(call);
}

}  // namespace

const ScratchRule linear_scratch = {linear_kinds, linear_workspace_bytes};

}  // namespace trainer::cuda
