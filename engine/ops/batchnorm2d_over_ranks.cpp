#include "engine/ops/batchnorm2d_over_ranks.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/op_definition.h"

namespace trainer {

Op batchnorm2d_sums_op(const TensorType& x) {
  return {OpKind::batchnorm2d_sums, BatchNorm2dAttributes{}, {x}, {batchnorm2d_sums_type(x.shape[-1])}};
}

Op batchnorm2d_statistics_op(const TensorType& sums, const BatchNorm2dAttributes& attributes) {
  const TensorType channels{DType::f32, {channels_of_sums(sums)}};
  return {OpKind::batchnorm2d_statistics, attributes, {sums, channels, channels}, {channels, channels}};
}

Op batchnorm2d_gradient_sums_op(const Op& batchnorm2d_normalize) {
  const auto& attributes = attributes_of<BatchNorm2dAttributes>(batchnorm2d_normalize);
  require_internal(!attributes.adds, "sums move into batch norms behind differentiate()");
  const TensorType& x = batchnorm2d_normalize.inputs[0];
  const TensorType& channels = batchnorm2d_normalize.inputs[1];
  Op op{
      OpKind::batchnorm2d_gradient_sums, attributes, {x, x, channels, channels}, {batchnorm2d_sums_type(x.shape[-1])}};
  if (attributes.affine && attributes.relu) op.inputs.insert(op.inputs.end(), {channels, channels});
  if (attributes.affine) op.outputs.insert(op.outputs.end(), {channels, channels});
  return op;
}

Op batchnorm2d_normalize_backward_op(const Op& batchnorm2d_normalize) {
  const auto& attributes = attributes_of<BatchNorm2dAttributes>(batchnorm2d_normalize);
  require_internal(!attributes.adds, "sums move into batch norms behind differentiate()");
  const TensorType& x = batchnorm2d_normalize.inputs[0];
  const TensorType& channels = batchnorm2d_normalize.inputs[1];
  Op op{OpKind::batchnorm2d_normalize_backward,
        attributes,
        {x, x, channels, channels, batchnorm2d_sums_type(x.shape[-1])},
        {x}};
  if (attributes.affine) op.inputs.push_back(channels);
  if (attributes.affine && attributes.relu) op.inputs.push_back(channels);
  return op;
}

namespace {

bool is_running_statistic_of_ranks(const Op& /*op*/, int position) { return position == 1 || position == 2; }

}  // namespace

// Those of batchnorm2d and batchnorm2d_backward, which have both passes.
const OpDefinition batchnorm2d_sums_definition = {
    .flops = flops_per_input_element<5>, .precision = Precision::follows, .runs_once = true, .takes_scratch = true};
const OpDefinition batchnorm2d_statistics_definition = {.flops = flops_per_input_element<5>,
                                                        .modifies = is_running_statistic_of_ranks,
                                                        .runs_once = true,
                                                        .needs_no_samples = true};
const OpDefinition batchnorm2d_gradient_sums_definition = {.flops = flops_per_input_element<5>, .takes_scratch = true};
const OpDefinition batchnorm2d_normalize_backward_definition = {
    .flops = flops_per_input_element<6>, .in_place = in_place_over_first, .takes_scratch = true};

}  // namespace trainer
