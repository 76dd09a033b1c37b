#include "engine/ops/loss_chunks.h"

#include <catch2/catch.hpp>
#include <vector>

#include "engine/ops/op_definition.h"

using namespace trainer;
using Place = ChunkOperand::Place;

namespace {

Op loss_of(DType type, std::int64_t rows, std::int64_t chunk_rows, DType gradient_type, bool bias = true) {
  const TensorType x{type, {rows, 12}}, weight{type, {50, 12}}, targets{DType::i32, {rows}};
  const LinearCrossEntropyAttributes attributes{
      .loss = {}, .bias = bias, .chunk_rows = chunk_rows, .scaled = type == DType::f16};
  return linear_cross_entropy_with_gradient_op(x, weight, targets, attributes, gradient_type);
}

const TensorType& type_of(const Op& op, const LossChunks& chunks, const ChunkOperand& operand) {
  const auto position = static_cast<std::size_t>(operand.position);
  if (operand.place == Place::scratch) return chunks.scratch.at(position);
  return operand.place == Place::input ? op.inputs.at(position) : op.outputs.at(position);
}

/// How often each row of input 0 is read and of each output is written, by the chunks in order.
void check_rows(const Op& op) {
  const LossChunks chunks = loss_chunks(op);
  std::vector<int> num_targets(static_cast<std::size_t>(chunks.rows), 0);
  for (std::int64_t row = 0; row < chunks.rows; row += chunks.chunk_rows) {
    for (const ChunkStep& step : chunks.parts[static_cast<std::size_t>(chunks.part_at(row))]) {
      REQUIRE(step.inputs.size() == step.op.inputs.size());
      REQUIRE(step.outputs.size() == step.op.outputs.size());
      const auto check = [&](const ChunkOperand& operand, const TensorType& used) {
        const TensorType& whole = type_of(op, chunks, operand);
        CHECK(used.dtype == whole.dtype);
        CHECK(row * operand.row_bytes + used.num_bytes() <= whole.num_bytes());
        if (operand.row_bytes == 0 && operand.place != Place::scratch) CHECK(used == whole);
      };
      for (std::size_t i = 0; i < step.inputs.size(); ++i) check(step.inputs[i], step.op.inputs[i]);
      for (std::size_t i = 0; i < step.outputs.size(); ++i) check(step.outputs[i], step.op.outputs[i]);
      if (step.op.kind != OpKind::cross_entropy_with_gradient) continue;
      for (std::int64_t i = 0; i < step.op.inputs[0].shape[0]; ++i) ++num_targets[static_cast<std::size_t>(row + i)];
    }
  }
  CHECK(num_targets == std::vector<int>(num_targets.size(), 1));
}

}  // namespace

TEST_CASE("chunks of a loss take each row once and stay within their operands") {
  for (const std::int64_t rows : {1, 2, 7, 32, 33}) {
    for (const std::int64_t chunk_rows : {1, 2, 7, 16, 40}) {
      INFO(rows << " rows by " << chunk_rows);
      check_rows(loss_of(DType::f32, rows, chunk_rows, DType::f32));
      check_rows(loss_of(DType::f16, rows, chunk_rows, DType::f32));
      check_rows(loss_of(DType::bf16, rows, chunk_rows, DType::bf16, false));
    }
  }
}

TEST_CASE("the scratch of a loss in chunks is one chunk of logits, and beside 16 bit what is summed or read in f32") {
  using Types = std::vector<TensorType>;
  CHECK(loss_chunks(loss_of(DType::f32, 33, 8, DType::f32)).scratch == Types{{DType::f32, {8, 50}}});
  CHECK(loss_chunks(loss_of(DType::f32, 5, 8, DType::f32)).scratch == Types{{DType::f32, {5, 50}}});
  const TensorType bias{DType::f32, {50}};
  CHECK(loss_chunks(loss_of(DType::f16, 33, 8, DType::f32)).scratch ==
        Types{{DType::f32, {8, 50}}, bias, {DType::f16, {8, 50}}});
  CHECK(loss_chunks(loss_of(DType::bf16, 33, 8, DType::bf16)).scratch ==
        Types{{DType::f32, {8, 50}}, bias, {DType::bf16, {8, 50}}, {DType::f32, {50, 12}}, bias});
}

TEST_CASE("a loss in chunks counts the operations of the ops that it stands for") {
  const Op op = loss_of(DType::f32, 10, 3, DType::f32);
  CHECK(definition_of(op.kind).flops(op) == 3 * (2 * 10 * 12 * 50) + 6 * 10 * 50);
  const Op forward =
      linear_cross_entropy_op(op.inputs[0], op.inputs[1], {DType::i32, {10}}, {.loss = {}, .chunk_rows = 3});
  CHECK(definition_of(forward.kind).flops(forward) == 2 * 10 * 12 * 50 + 4 * 10 * 50);
}
