#include "engine/ops/rank_parts.h"

#include <algorithm>
#include <vector>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// Of one part after another, without empty ones.
std::vector<TensorType> parts_of(std::span<const TensorType> tensors, std::int64_t num_ranks, std::int64_t place) {
  std::vector<TensorType> parts;
  for (const TensorType& tensor : tensors)
    if (const ElementRange part = rank_part(tensor.num_elements(), num_ranks, place); part.count > 0)
      parts.push_back({tensor.dtype, {part.count}});
  return parts;
}

void require_tensors(std::span<const TensorType> tensors, const RankGroup& ranks, std::int64_t place) {
  require_internal(!tensors.empty() && place >= 0 && place < ranks.count, "ranks have parts of tensors");
  for (const TensorType& tensor : tensors)
    require_internal(tensor.dtype == tensors[0].dtype, "tensors that ranks share in one list are of one type");
}

}  // namespace

ElementRange rank_part(std::int64_t num_elements, std::int64_t num_ranks, std::int64_t place, std::int64_t unit) {
  const std::int64_t each = (num_elements + num_ranks - 1) / num_ranks;
  const std::int64_t size = (each + unit - 1) / unit * unit;
  const std::int64_t begin = std::min(place * size, num_elements);
  return {begin, std::min(size, num_elements - begin)};
}

Op reduce_scatter_op(std::span<const TensorType> tensors, const RankGroup& ranks, std::int64_t place, bool adds) {
  require_tensors(tensors, ranks, place);
  const RankPartsAttributes attributes{ranks, place, std::ssize(tensors), adds};
  Op op{OpKind::reduce_scatter, attributes, {tensors.begin(), tensors.end()}, {}};
  const std::vector<TensorType> parts = parts_of(tensors, ranks.count, place);
  op.inputs.insert(op.inputs.end(), parts.begin(), parts.end());
  return op;
}

Op all_gather_op(std::span<const TensorType> tensors, const RankGroup& ranks, std::int64_t place) {
  require_tensors(tensors, ranks, place);
  return {OpKind::all_gather,
          RankPartsAttributes{ranks, place, std::ssize(tensors)},
          parts_of(tensors, ranks.count, place),
          {tensors.begin(), tensors.end()}};
}

namespace {

TensorType rows_of(const TensorType& whole, const RankGroup& ranks, std::int64_t place) {
  require_tensors({&whole, 1}, ranks, place);
  const std::int64_t columns = whole.shape[-1], rows = whole.num_elements() / columns;
  require_internal(rows % ranks.count == 0, "ranks have as many rows each");
  return {whole.dtype, {rows / ranks.count, columns}};
}

}  // namespace

Op reduce_scatter_rows_op(const TensorType& whole, const RankGroup& ranks, std::int64_t place) {
  RankPartsAttributes attributes{.ranks = ranks, .place = place, .num_tensors = 1};
  attributes.unit = whole.shape[-1];
  attributes.is_output = true;
  return {OpKind::reduce_scatter, attributes, {whole}, {rows_of(whole, ranks, place)}};
}

Op all_gather_rows_op(const TensorType& whole, const RankGroup& ranks, std::int64_t place, bool is_alike) {
  RankPartsAttributes attributes{.ranks = ranks, .place = place, .num_tensors = 1};
  attributes.unit = whole.shape[-1];
  attributes.is_alike = is_alike;
  return {OpKind::all_gather, attributes, {rows_of(whole, ranks, place)}, {whole}};
}

std::int64_t reduce_scatter_stretch(const Op& op) {
  const auto& attributes = attributes_of<RankPartsAttributes>(op);
  if (attributes.ranks.count < 2) return 0;
  std::int64_t largest = 0;  // the first rank's parts together
  for (std::int64_t i = 0; i < attributes.num_tensors; ++i)
    largest +=
        rank_part(op.inputs[static_cast<std::size_t>(i)].num_elements(), attributes.ranks.count, 0, attributes.unit)
            .count;
  const std::int64_t most =
      most_all_reduce_scratch / (attributes.ranks.count - 1) / static_cast<std::int64_t>(size_of(op.inputs[0].dtype));
  return std::min(largest, std::max(most / 64 * 64, std::int64_t{64}));
}

namespace {

std::int64_t reduce_scatter_flops(const Op& op) {
  const auto& attributes = attributes_of<RankPartsAttributes>(op);
  std::int64_t own = 0;
  for (auto i = static_cast<std::size_t>(attributes.num_tensors); i < op.inputs.size(); ++i)
    own += op.inputs[i].num_elements();
  if (attributes.is_output) own = op.outputs[0].num_elements();
  return own * (attributes.ranks.count - 1 + (attributes.adds ? 1 : 0));
}

std::int64_t all_gather_flops(const Op&) { return 0; }

void differentiate_reduce_scatter(GradientScope& scope) {
  const auto& attributes = attributes_of<RankPartsAttributes>(scope.op());
  require_internal(attributes.is_output, "a graph has rows of tensors");
  if (!scope.needs_gradient(0)) return;
  scope.set_gradient(0, scope.emit(all_gather_rows_op(scope.op().inputs[0], attributes.ranks, attributes.place, true),
                                   {scope.output_gradient()})[0]);
}

void differentiate_all_gather(GradientScope& scope) {
  const auto& attributes = attributes_of<RankPartsAttributes>(scope.op());
  if (!scope.needs_gradient(0)) return;
  const TensorType &whole = scope.op().outputs[0], &part = scope.op().inputs[0];
  const Operand gradient = scope.output_gradient();
  if (!attributes.is_alike)
    return scope.set_gradient(
        0, scope.emit(reduce_scatter_rows_op(whole, attributes.ranks, attributes.place), {gradient})[0]);
  // All numbers as one row, of which this rank takes a range.
  const std::int64_t own = part.num_elements();
  const TensorType row{whole.dtype, {1, whole.num_elements()}};
  const Op slice = channel_slice_op(row, own, {.first = attributes.place * own});
  scope.set_gradient(0, scope.view(scope.emit(slice, {scope.view(gradient, row.shape)})[0], part.shape));
}

}  // namespace

const OpDefinition reduce_scatter_definition = {.flops = reduce_scatter_flops,
                                                .differentiate = differentiate_reduce_scatter,
                                                .precision = Precision::follows,
                                                .role = Role::communication,
                                                .takes_scratch = true};
const OpDefinition all_gather_definition = {.flops = all_gather_flops,
                                            .differentiate = differentiate_all_gather,
                                            .precision = Precision::follows,
                                            .role = Role::communication};

}  // namespace trainer
