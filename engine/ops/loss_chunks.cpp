#include "engine/ops/loss_chunks.h"

#include <algorithm>
#include <utility>

namespace trainer {

namespace {

using Place = ChunkOperand::Place;

class ChunkPlanner {
 public:
  explicit ChunkPlanner(const Op& op)
      : op_(op),
        attributes_(attributes_of<LinearCrossEntropyAttributes>(op)),
        x_(op.inputs[0]),
        weight_(op.inputs[1]),
        is_half_(x_.dtype != DType::f32),
        has_gradient_(op.kind == OpKind::linear_cross_entropy_with_gradient) {
    require_internal(attributes_.chunk_rows > 0, "a chunk has a row");
    plan_.rows = num_rows_of_linear_cross_entropy(op);
    plan_.chunk_rows = std::min(attributes_.chunk_rows, plan_.rows);
  }

  LossChunks run() {
    place_operands();
    plan_.part(ChunkPart::first) = chunk(plan_.chunk_rows, true);
    if (plan_.rows >= 2 * plan_.chunk_rows) plan_.part(ChunkPart::next) = chunk(plan_.chunk_rows, false);
    if (const std::int64_t left = plan_.rows % plan_.chunk_rows; left > 0)
      plan_.part(ChunkPart::last) = chunk(left, false);
    return std::move(plan_);
  }

 private:
  std::int64_t row_bytes(const TensorType& type) const { return type.num_bytes() / plan_.rows; }

  ChunkOperand add_scratch(const TensorType& type) {
    plan_.scratch.push_back(type);
    return {Place::scratch, static_cast<int>(plan_.scratch.size()) - 1};
  }

  void place_operands() {
    const int next = attributes_.bias ? 3 : 2;
    bias_ = {Place::input, 2};
    targets_ = {Place::input, next, row_bytes(op_.inputs[static_cast<std::size_t>(next)])};
    statistics_ = {Place::input, next + 1};
    const int behind = attributes_.loss.mixed ? next + 3 : next + 2;
    if (attributes_.loss.mixed)
      mixing_ = {Place::input, next + 2, row_bytes(op_.inputs[static_cast<std::size_t>(next + 2)])};
    loss_scale_ = counts_ = {Place::input, behind};  // one of them
    const std::int64_t classes = weight_.shape[0];
    logits_ = add_scratch({DType::f32, {plan_.chunk_rows, classes}});
    // A product whose result is f32 wants its bias in f32.
    if (attributes_.bias && is_half_) {
      bias_ = add_scratch({DType::f32, {classes}});
      plan_.part(ChunkPart::before).push_back({cast_op(op_.inputs[2], DType::f32), {{Place::input, 2}}, {bias_}});
    }
    if (attributes_.part) {
      const Op find = statistics_op(plan_.chunk_rows);
      class_statistics_ = add_scratch(find.outputs[0]);
      class_order_ = add_scratch(class_order_op(find).outputs[0]);
    }
    if (!has_gradient_) return;
    dlogits_ = is_half_ ? add_scratch({x_.dtype, {plan_.chunk_rows, classes}}) : logits_;
    const int num_sums = attributes_.bias ? 2 : 1;
    for (int i = 0; i < num_sums; ++i) {
      const TensorType& wanted = op_.outputs[static_cast<std::size_t>(i)];
      const ChunkOperand gradient{Place::output, i};
      sums_.push_back(gradient);
      if (wanted.dtype == DType::f32) continue;
      const TensorType sum{DType::f32, wanted.shape};
      sums_.back() = add_scratch(sum);
      plan_.part(ChunkPart::after).push_back({cast_op(sum, wanted.dtype), {sums_.back()}, {gradient}});
    }
    dx_ = {Place::output, num_sums, row_bytes(x_)};
  }

  std::vector<ChunkStep> chunk(std::int64_t rows, bool is_first) const {
    std::vector<ChunkStep> steps;
    const ChunkOperand x{Place::input, 0, row_bytes(x_)}, weight{Place::input, 1};
    Op linear = linear_op({x_.dtype, {rows, x_.shape[-1]}}, {.out = weight_.shape[0], .bias = attributes_.bias});
    const Op products = linear;  // of one type, whose gradients the products are
    linear.outputs[0].dtype = DType::f32;
    if (attributes_.bias) linear.inputs[2].dtype = DType::f32;
    const TensorType logits = linear.outputs[0];
    steps.push_back({linear, {x, weight}, {logits_}});
    if (attributes_.bias) steps.back().inputs.push_back(bias_);

    if (attributes_.part)
      append_loss_of_part(steps, rows);
    else
      append_loss(steps, logits);
    if (!has_gradient_) return steps;
    if (attributes_.scaled) steps.push_back({scale_gradient_op(logits), {logits_, loss_scale_}, {logits_}});
    if (is_half_) steps.push_back({cast_op(logits, x_.dtype), {logits_}, {dlogits_}});
    if (attributes_.input_gradient) steps.push_back({linear_backward_input_op(products), {dlogits_, weight}, {dx_}});
    steps.push_back(weight_gradient(products, x, is_first));
    return steps;
  }

  TensorType targets_of(std::int64_t rows) const {
    return {op_.inputs[static_cast<std::size_t>(targets_.position)].dtype, {rows}};
  }
  Op statistics_op(std::int64_t rows) const {
    return class_statistics_op({DType::f32, {rows, weight_.shape[0]}}, targets_of(rows), *attributes_.part);
  }

  /// The loss and, where it is wanted, the gradient of the logits in their place.
  void append_loss(std::vector<ChunkStep>& steps, const TensorType& logits) const {
    const TensorType targets = targets_of(logits.shape[0]);
    const Op loss = cross_entropy_op(logits, targets, attributes_.loss);
    std::vector<ChunkOperand> operands{logits_, targets_, statistics_};
    if (attributes_.loss.mixed) operands.push_back(mixing_);
    if (has_gradient_) {
      steps.push_back({cross_entropy_with_gradient_op(loss), operands, {logits_}});
      return;
    }
    steps.push_back({loss, operands, {}});
    if (!attributes_.counts) return;
    const Op count = confusion_matrix_op(logits, targets, {.ignore_index = attributes_.loss.ignore_index});
    steps.push_back({count, {logits_, targets_, counts_}, {}});
  }

  /// The same of this rank's classes: Note [Losses of cut classes].
  void append_loss_of_part(std::vector<ChunkStep>& steps, std::int64_t rows) const {
    const Op find = statistics_op(rows), order = class_order_op(find), loss = cross_entropy_of_parts_op(find);
    const auto add_up = [&](const TensorType& terms, const ChunkOperand& place) {
      if (attributes_.part->ranks.count > 1)
        steps.push_back({all_reduce_op({&terms, 1}, attributes_.part->ranks), {place}, {}});
    };
    steps.push_back({find, {logits_, targets_}, {class_statistics_}});
    add_up(find.outputs[0], class_statistics_);
    steps.push_back({order, {logits_, targets_, class_statistics_}, {class_order_}});
    add_up(order.outputs[0], class_order_);
    steps.push_back({loss, {logits_, targets_, class_statistics_, class_order_, statistics_}, {}});
    if (!has_gradient_) return;
    steps.push_back({cross_entropy_of_parts_backward_op(loss), {logits_, targets_, class_statistics_}, {logits_}});
  }

  ChunkStep weight_gradient(const Op& products, const ChunkOperand& x, bool is_first) const {
    Op op = is_first ? linear_backward_weight_op(products) : linear_add_backward_weight_op(products);
    ChunkStep step{std::move(op), {dlogits_, x}, {}};
    for (TensorType& sum : step.op.outputs) sum.dtype = DType::f32;
    for (std::size_t i = 2; i < step.op.inputs.size(); ++i) step.op.inputs[i].dtype = DType::f32;
    std::vector<ChunkOperand>& sums = is_first ? step.outputs : step.inputs;
    sums.insert(sums.end(), sums_.begin(), sums_.end());
    return step;
  }

  const Op& op_;
  const LinearCrossEntropyAttributes& attributes_;
  const TensorType &x_, &weight_;
  bool is_half_, has_gradient_;
  LossChunks plan_;
  ChunkOperand bias_, targets_, statistics_, mixing_, loss_scale_, counts_, logits_, dlogits_, dx_;
  ChunkOperand class_statistics_, class_order_;
  std::vector<ChunkOperand> sums_;  // of dW and db, in f32
};

}  // namespace

LossChunks loss_chunks(const Op& linear_cross_entropy) { return ChunkPlanner(linear_cross_entropy).run(); }

}  // namespace trainer
