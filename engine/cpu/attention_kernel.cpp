#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/cpu/attention_rows.h"
#include "engine/cpu/attention_scratch.h"
#include "engine/cpu/attention_weights.h"
#include "engine/cpu/kernels.h"
#include "engine/half.h"

namespace trainer {
namespace {

/// What a thread computes with, for one block of queries.
struct ForwardScratch {
  float* queries;        ///< (width, queries) in panels
  float* outputs;        ///< the same
  float* keys;           ///< (keys, width)
  float* values;         ///< (keys, width)
  float* scores;         ///< (keys, queries of a group) in panels
  float* rows;           ///< (16, width)
  SoftmaxLines softmax;  ///< (queries)

  ForwardScratch(const AttentionShape& shape, ScratchParts& parts) {
    const std::int64_t lanes = std::min(most_block_queries, padded_columns(shape.queries));
    const std::int64_t num_keys = std::min(most_block_keys, shape.keys);
    queries = parts.take(shape.width * lanes);
    outputs = parts.take(shape.width * lanes);
    keys = parts.take(num_keys * shape.width);
    values = parts.take(num_keys * shape.width);
    scores = parts.take(num_keys * std::min(most_group_queries, lanes));
    rows = parts.take(panel_columns * shape.width);
    softmax = {parts.take(lanes), parts.take(lanes), parts.take(lanes)};
  }
};

std::int64_t num_query_blocks(const AttentionShape& shape) {
  return (shape.queries + most_block_queries - 1) / most_block_queries;
}

/// The first and the last block, then the second and the last but one: of causal attention the later ones have more
/// keys, and each thread takes neighbouring blocks.
std::int64_t block_in_turn(std::int64_t turn, std::int64_t num_blocks) {
  return turn % 2 == 0 ? turn / 2 : num_blocks - 1 - turn / 2;
}

class AttentionKernel final : public CpuKernel {
 public:
  AttentionKernel(const Op& op, const CpuContext& context)
      : attributes_(attributes_of<AttentionAttributes>(op)),
        shape_(attention_shape(op)),
        type_(op.inputs[0].dtype),
        packed_(is_packed_attention(op)),
        spans_position_(spans_position(op)),
        rule_(dropout_rule(attributes_.p)),
        table_(shape_, attributes_),
        group_panels_(attributes_.p > 0 ? most_group_queries / panel_columns : panels_at_once()),
        num_threads_(attention_threads(shape_, num_tasks(shape_), context)) {}

  static std::int64_t num_tasks(const AttentionShape& shape) {
    return shape.samples * shape.heads * num_query_blocks(shape);
  }
  std::int64_t workspace_bytes() const {
    ScratchParts parts(nullptr);
    const ForwardScratch of_thread(shape_, parts);
    return (padded_columns(table_.num_floats()) + num_threads_ * parts.num_floats()) *
           static_cast<std::int64_t>(sizeof(float));
  }

  void run(const OperandAddresses& addresses, const StepScalars& scalars) override {
    const HeadOperands operands = head_operands(shape_, type_, packed_, addresses.inputs.data());
    const HeadRows y = output_rows(shape_, type_, addresses.outputs[0]);
    float* const lse = output(addresses, 1);
    auto* const table = static_cast<float*>(addresses.workspace);
    float* const scratch = table + padded_columns(table_.num_floats());
    table_.fill(table, num_threads_);
    ScratchParts counted(nullptr);
    const ForwardScratch of_thread(shape_, counted);
    const std::int64_t thread_floats = counted.num_floats(), num_blocks = num_query_blocks(shape_);
    const std::int32_t* const spans = spans_position_ < 0 ? nullptr : input<std::int32_t>(addresses, spans_position_);
    parallel_tasks(num_threads_, num_tasks(shape_), [&](std::int64_t task) {
      ScratchParts parts(scratch + omp_get_thread_num() * thread_floats);
      const std::int64_t of_head = task / num_blocks;
      const std::int64_t first = block_in_turn(task % num_blocks, num_blocks) * most_block_queries;
      compute_block(operands, y, lse, table,
                    {scalars.seed, attributes_.stream, scalars.pass, weight_blocks(shape_, scalars.first_sample)},
                    {shape_, attributes_, spans, of_head / shape_.heads}, of_head, first,
                    ForwardScratch(shape_, parts));
    });
  }

 private:
  void compute_block(const HeadOperands& operands, const HeadRows& y, float* lse, const float* table,
                     const PhiloxStream& philox, const Visibility& visibility, std::int64_t of_head, std::int64_t first,
                     const ForwardScratch& scratch) const {
    const std::int64_t sample = of_head / shape_.heads, head = of_head % shape_.heads;
    const std::int64_t kv_head = head / shape_.group(), width = shape_.width;
    const std::int64_t num_queries = std::min(most_block_queries, shape_.queries - first);
    const std::int64_t lanes = padded_columns(num_queries);
    load_queries(operands.q, table, sample, head, first, num_queries, scratch);
    std::fill_n(scratch.softmax.largest, lanes, std::numeric_limits<float>::lowest());
    std::fill_n(scratch.softmax.sum, lanes, 0.0F);
    std::fill_n(scratch.outputs, width * lanes, 0.0F);
    const KeyRange range = visibility.of_queries(first, first + num_queries - 1);
    for (std::int64_t key = range.begin; key < range.end; key += most_block_keys) {
      const KeyRange keys{key, std::min(key + most_block_keys, range.end)};
      load_keys(operands, table, sample, kv_head, keys, scratch);
      for_each_group(visibility, first, num_queries, group_panels_, keys,
                     [&](const QueryGroup& group, std::int64_t lane) {
                       add_keys(visibility, group, lane, key,
                                weight_dropout_of(shape_, rule_, philox, shape_.drawn_head(sample, head)), scratch);
                     });
    }
    store_outputs(y, sample, head, first, num_queries, scratch);
    for (std::int64_t i = 0; i < num_queries; ++i)
      lse[of_head * shape_.queries + first + i] = scratch.softmax.largest[i] + std::log(scratch.softmax.sum[i]);
  }

  void load_keys(const HeadOperands& operands, const float* table, std::int64_t sample, std::int64_t kv_head,
                 const KeyRange& keys, const ForwardScratch& scratch) const {
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const std::int64_t at = (key - keys.begin) * shape_.width;
      widen(type_, operands.k.row(sample, kv_head, key), scratch.keys + at, shape_.width);
      rotate_row(scratch.keys + at, table_.of(table, key), shape_.width);
      widen(type_, operands.v.row(sample, kv_head, key), scratch.values + at, shape_.width);
    }
  }

  /// What the group's queries see of the keys from `first_key` on, which are loaded.
  void add_keys(const Visibility& visibility, const QueryGroup& group, std::int64_t lane, std::int64_t first_key,
                const WeightDropout& dropout, const ForwardScratch& scratch) const {
    const std::int64_t width = shape_.width, num_keys = group.keys.end - group.keys.begin;
    const std::int64_t at = (group.keys.begin - first_key) * width;
    const ScoreBlock block{scratch.scores, group.first_query, group.keys.begin,
                           num_keys,       group.num_panels,  num_keys * panel_columns};
    const Panels queries{scratch.queries + lane * width, width * panel_columns};
    const Panels outputs{scratch.outputs + lane * width, width * panel_columns};
    const Panels scores{block.scores, block.stride};
    multiply_panels({scratch.keys + at, width}, queries, scores, num_keys, width, group.lanes(), false);
    visibility.hide_keys(block);
    const SoftmaxLines& softmax = scratch.softmax;
    if (add_to_softmax(block, {softmax.largest + lane, softmax.sum + lane, softmax.factor}))
      for (std::int64_t p = 0; p < group.num_panels; ++p)
        scale_panel(outputs.data + p * outputs.stride, width, softmax.factor + p * panel_columns);
    if (attributes_.p > 0) dropout.drop(block);
    multiply_panels({scratch.values + at, width, true}, scores, outputs, width, num_keys, group.lanes(), true);
  }

  void load_queries(const HeadRows& q, const float* table, std::int64_t sample, std::int64_t head, std::int64_t first,
                    std::int64_t count, const ForwardScratch& scratch) const {
    const std::int64_t width = shape_.width;
    for (std::int64_t done = 0; done < count; done += panel_columns) {
      const std::int64_t num_rows = std::min(panel_columns, count - done);
      for (std::int64_t i = 0; i < num_rows; ++i) {
        float* const row = scratch.rows + i * width;
        widen(type_, q.row(sample, head, first + done + i), row, width);
        rotate_row(row, table_.of(table, first + done + i), width);
      }
      transpose_to_panel(scratch.rows, num_rows, width, score_scale(width), scratch.queries + done * width);
    }
  }

  void store_outputs(const HeadRows& y, std::int64_t sample, std::int64_t head, std::int64_t first, std::int64_t count,
                     const ForwardScratch& scratch) const {
    const std::int64_t width = shape_.width;
    for (std::int64_t done = 0; done < count; done += panel_columns) {
      float reciprocals[panel_columns];
      for (std::int64_t i = 0; i < panel_columns; ++i) reciprocals[i] = 1.0F / scratch.softmax.sum[done + i];
      transpose_from_panel(scratch.outputs + done * width, reciprocals, width, scratch.rows);
      for (std::int64_t i = 0; i < std::min(panel_columns, count - done); ++i)
        narrow(type_, scratch.rows + i * width, y.row(sample, head, first + done + i), width);
    }
  }

  AttentionAttributes attributes_;
  AttentionShape shape_;
  DType type_;
  bool packed_;
  int spans_position_;
  DropoutRule rule_;
  RotaryTable table_;
  std::int64_t group_panels_;
  int num_threads_;
};

std::int64_t attention_workspace_bytes(const Op& op, CpuContext& context) {
  return AttentionKernel(op, context).workspace_bytes();
}

std::unique_ptr<CpuKernel> make_attention_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<AttentionKernel>(op, context);
}

}  // namespace

const CpuOp attention_on_cpu = {make_attention_kernel, takes_16_bit, attention_workspace_bytes};

}  // namespace trainer
