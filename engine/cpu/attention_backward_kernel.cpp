#include <omp.h>

#include <algorithm>

#include "engine/cpu/attention_rows.h"
#include "engine/cpu/attention_scratch.h"
#include "engine/cpu/attention_weights.h"
#include "engine/cpu/kernels.h"
#include "engine/half.h"

namespace trainer {
namespace {

/// What a thread computes with: sums over all queries of a head of keys and values, and one block of queries and keys.
struct BackwardScratch {
  Panels key_gradients, value_gradients;   ///< (all keys, width)
  Panels query_columns, gradient_columns;  ///< q and dy as (width, queries)
  Panels query_rows, gradient_rows;        ///< q and dy as (queries, width)
  Panels query_gradients;                  ///< (width, queries)
  float *keys, *values;                    ///< (keys, width)
  float *scores, *score_gradients;         ///< (keys, queries of a group) in panels
  float *rows, *output_row;                ///< (16, width), (width)
  float *lse, *d;                          ///< (queries)

  BackwardScratch(const AttentionShape& shape, ScratchParts& parts) {
    const std::int64_t width = shape.width, columns = padded_columns(width);
    const std::int64_t lanes = std::min(most_block_queries, padded_columns(shape.queries));
    const std::int64_t num_keys = std::min(most_block_keys, shape.keys);
    const auto panels = [&](std::int64_t num_rows, std::int64_t of_columns) {
      return Panels{parts.take(num_rows * of_columns), num_rows * panel_columns};
    };
    key_gradients = panels(shape.keys, columns);
    value_gradients = panels(shape.keys, columns);
    query_columns = panels(width, lanes);
    gradient_columns = panels(width, lanes);
    query_rows = panels(lanes, columns);
    gradient_rows = panels(lanes, columns);
    query_gradients = panels(width, lanes);
    keys = parts.take(num_keys * width);
    values = parts.take(num_keys * width);
    scores = parts.take(num_keys * std::min(most_group_queries, lanes));
    score_gradients = parts.take(num_keys * std::min(most_group_queries, lanes));
    rows = parts.take(panel_columns * width);
    output_row = parts.take(width);
    lse = parts.take(lanes);
    d = parts.take(lanes);
  }
};

/// Rows from `row` on.
Panels from_row(const Panels& panels, std::int64_t row) { return {panels.data + row * panel_columns, panels.stride}; }

class AttentionBackwardKernel final : public CpuKernel {
 public:
  AttentionBackwardKernel(const Op& op, const CpuContext& context)
      : attributes_(attributes_of<AttentionAttributes>(op)),
        shape_(attention_shape(op)),
        type_(op.inputs[0].dtype),
        packed_(is_packed_attention(op)),
        spans_position_(spans_position(op)),
        rule_(dropout_rule(attributes_.p)),
        table_(shape_, attributes_),
        group_panels_(attributes_.p > 0 ? most_group_queries / panel_columns
                                        : std::max<std::int64_t>(2, panels_at_once())),
        num_threads_(attention_threads(shape_, shape_.samples * shape_.kv_heads, context)) {}

  std::int64_t workspace_bytes() const {
    ScratchParts parts(nullptr);
    const BackwardScratch of_thread(shape_, parts);
    return (padded_columns(table_.num_floats()) + num_threads_ * parts.num_floats()) *
           static_cast<std::int64_t>(sizeof(float));
  }

  void run(const OperandAddresses& addresses, const StepScalars& scalars) override {
    Tensors tensors;
    tensors.operands = head_operands(shape_, type_, packed_, addresses.inputs.data() + 1);
    tensors.gradients = head_operands(shape_, type_, packed_, addresses.outputs.data());
    tensors.dy = output_rows(shape_, type_, addresses.inputs[0]);
    tensors.y = output_rows(shape_, type_, addresses.inputs[addresses.inputs.size() - 2]);
    tensors.lse = static_cast<const float*>(addresses.inputs.back());
    if (spans_position_ >= 0) tensors.spans = input<std::int32_t>(addresses, spans_position_);
    auto* const table = static_cast<float*>(addresses.workspace);
    tensors.table = table;
    tensors.philox = {scalars.seed, attributes_.stream, scalars.pass, weight_blocks(shape_, scalars.first_sample)};
    table_.fill(table, num_threads_);
    float* const scratch = table + padded_columns(table_.num_floats());
    ScratchParts counted(nullptr);
    const BackwardScratch of_thread(shape_, counted);
    const std::int64_t thread_floats = counted.num_floats();
    // A thread has all queries of its keys, in order, so that sums do not depend on the number of threads.
    parallel_tasks(num_threads_, shape_.samples * shape_.kv_heads, [&](std::int64_t task) {
      ScratchParts parts(scratch + omp_get_thread_num() * thread_floats);
      compute_head(tensors, task / shape_.kv_heads, task % shape_.kv_heads, BackwardScratch(shape_, parts));
    });
  }

 private:
  struct Tensors {
    HeadOperands operands, gradients;
    HeadRows dy, y;
    const float* lse = nullptr;
    const std::int32_t* spans = nullptr;
    const float* table = nullptr;
    PhiloxStream philox;
  };
  /// A block of queries of a head.
  struct QueryBlock {
    std::int64_t sample, head, first, num_queries;

    std::int64_t lanes() const { return padded_columns(num_queries); }
  };

  void compute_head(const Tensors& tensors, std::int64_t sample, std::int64_t kv_head,
                    const BackwardScratch& scratch) const {
    const Visibility visibility(shape_, attributes_, tensors.spans, sample);
    const std::int64_t sums = shape_.keys * padded_columns(shape_.width);
    std::fill_n(scratch.key_gradients.data, sums, 0.0F);
    std::fill_n(scratch.value_gradients.data, sums, 0.0F);
    for (std::int64_t head = kv_head * shape_.group(); head < (kv_head + 1) * shape_.group(); ++head) {
      for (std::int64_t first = 0; first < shape_.queries; first += most_block_queries) {
        const QueryBlock block{sample, head, first, std::min(most_block_queries, shape_.queries - first)};
        load_queries(tensors, block, scratch);
        const KeyRange range = visibility.of_queries(first, first + block.num_queries - 1);
        std::fill_n(scratch.query_gradients.data, shape_.width * block.lanes(), 0.0F);
        for (std::int64_t key = range.begin; key < range.end; key += most_block_keys) {
          const KeyRange keys{key, std::min(key + most_block_keys, range.end)};
          load_keys(tensors, sample, kv_head, keys, scratch);
          for_each_group(visibility, first, block.num_queries, group_panels_, keys,
                         [&](const QueryGroup& group, std::int64_t lane) {
                           add_keys(tensors, visibility, block, group, lane, key, scratch);
                         });
        }
        store_query_gradients(tensors, block, scratch);
      }
    }
    for (std::int64_t key = 0; key < shape_.keys; ++key) {
      float* const row = scratch.output_row;
      take_row(scratch.key_gradients, key, shape_.width, row);
      rotate_row_back(row, table_.of(tensors.table, key), shape_.width);
      narrow(type_, row, tensors.gradients.k.row(sample, kv_head, key), shape_.width);
      take_row(scratch.value_gradients, key, shape_.width, row);
      narrow(type_, row, tensors.gradients.v.row(sample, kv_head, key), shape_.width);
    }
  }

  /// q, rotated and scaled, dy, the logarithms, and d = Σ dy · y, which is what softmax takes from every gradient.
  void load_queries(const Tensors& tensors, const QueryBlock& block, const BackwardScratch& scratch) const {
    const std::int64_t width = shape_.width;
    std::fill_n(scratch.lse, block.lanes(), 0.0F);
    std::fill_n(scratch.d, block.lanes(), 0.0F);
    const float* const lse = tensors.lse + (block.sample * shape_.heads + block.head) * shape_.queries + block.first;
    std::copy_n(lse, block.num_queries, scratch.lse);
    for (std::int64_t done = 0; done < block.lanes(); done += panel_columns) {
      const std::int64_t num_rows = std::min(panel_columns, block.num_queries - done);
      const auto row_at = [&](std::int64_t i) { return scratch.rows + i * width; };
      for (std::int64_t i = 0; i < num_rows; ++i) {
        const std::int64_t query = block.first + done + i;
        widen(type_, tensors.operands.q.row(block.sample, block.head, query), row_at(i), width);
        rotate_row(row_at(i), table_.of(tensors.table, query), width);
      }
      put_rows(scratch.query_rows, scratch.query_columns, done, num_rows, score_scale(width), scratch.rows);
      for (std::int64_t i = 0; i < num_rows; ++i) {
        const std::int64_t query = block.first + done + i;
        widen(type_, tensors.y.row(block.sample, block.head, query), scratch.output_row, width);
        widen(type_, tensors.dy.row(block.sample, block.head, query), row_at(i), width);
        scratch.d[done + i] = dot_of_rows(row_at(i), scratch.output_row, width);
      }
      put_rows(scratch.gradient_rows, scratch.gradient_columns, done, num_rows, 1.0F, scratch.rows);
    }
  }

  /// Up to 16 rows from `first` on, in both orders; those behind them are 0.
  void put_rows(const Panels& as_rows, const Panels& as_columns, std::int64_t first, std::int64_t num_rows,
                float factor, float* rows) const {
    std::fill_n(rows + num_rows * shape_.width, (panel_columns - num_rows) * shape_.width, 0.0F);
    for (std::int64_t i = 0; i < panel_columns; ++i)
      put_row(as_rows, first + i, rows + i * shape_.width, shape_.width, factor);
    transpose_to_panel(rows, panel_columns, shape_.width, factor, as_columns.panel(first));
  }

  void load_keys(const Tensors& tensors, std::int64_t sample, std::int64_t kv_head, const KeyRange& keys,
                 const BackwardScratch& scratch) const {
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const std::int64_t at = (key - keys.begin) * shape_.width;
      widen(type_, tensors.operands.k.row(sample, kv_head, key), scratch.keys + at, shape_.width);
      rotate_row(scratch.keys + at, table_.of(tensors.table, key), shape_.width);
      widen(type_, tensors.operands.v.row(sample, kv_head, key), scratch.values + at, shape_.width);
    }
  }

  /// All that the group's queries and the keys that they see of those from `first_key` on give each other.
  void add_keys(const Tensors& tensors, const Visibility& visibility, const QueryBlock& queries,
                const QueryGroup& group, std::int64_t lane, std::int64_t first_key,
                const BackwardScratch& scratch) const {
    const std::int64_t width = shape_.width, columns = padded_columns(width), lanes = group.lanes();
    const std::int64_t key = group.keys.begin, num_keys = group.keys.end - key;
    const float* const keys = scratch.keys + (key - first_key) * width;
    const float* const values = scratch.values + (key - first_key) * width;
    const ScoreBlock block{scratch.scores, group.first_query, key,
                           num_keys,       group.num_panels,  num_keys * panel_columns};
    const Panels scores{scratch.scores, block.stride}, score_gradients{scratch.score_gradients, block.stride};
    const auto of_group = [&](const Panels& of) { return Panels{of.panel(lane), of.stride}; };
    multiply_panels({keys, width}, of_group(scratch.query_columns), scores, num_keys, width, lanes, false);
    visibility.hide_keys(block);
    scores_to_weights(block, scratch.lse + lane);
    multiply_panels({values, width}, of_group(scratch.gradient_columns), score_gradients, num_keys, width, lanes,
                    false);
    if (attributes_.p > 0) {
      weight_dropout_of(shape_, rule_, tensors.philox, shape_.drawn_head(queries.sample, queries.head))
          .drop_backward(block, scratch.score_gradients, scratch.d + lane);
    } else {
      weights_to_score_gradients(block, scratch.score_gradients, scratch.d + lane);
    }
    multiply_panels({keys, width, true}, score_gradients, of_group(scratch.query_gradients), width, num_keys, lanes,
                    true);
    const auto by_queries = [&](const Panels& of) {
      return Factor{of.data, panel_columns, false, panel_columns, of.stride};
    };
    multiply_panels(by_queries(score_gradients), from_row(scratch.query_rows, lane),
                    from_row(scratch.key_gradients, key), num_keys, lanes, columns, true);
    multiply_panels(by_queries(scores), from_row(scratch.gradient_rows, lane), from_row(scratch.value_gradients, key),
                    num_keys, lanes, columns, true);
  }

  void store_query_gradients(const Tensors& tensors, const QueryBlock& block, const BackwardScratch& scratch) const {
    const std::int64_t width = shape_.width;
    float scale[panel_columns];
    std::fill_n(scale, panel_columns, score_scale(width));
    for (std::int64_t done = 0; done < block.num_queries; done += panel_columns) {
      transpose_from_panel(scratch.query_gradients.panel(done), scale, width, scratch.rows);
      for (std::int64_t i = 0; i < std::min(panel_columns, block.num_queries - done); ++i) {
        const std::int64_t query = block.first + done + i;
        float* const row = scratch.rows + i * width;
        rotate_row_back(row, table_.of(tensors.table, query), width);
        narrow(type_, row, tensors.gradients.q.row(block.sample, block.head, query), width);
      }
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

std::int64_t attention_backward_workspace_bytes(const Op& op, CpuContext& context) {
  return AttentionBackwardKernel(op, context).workspace_bytes();
}

std::unique_ptr<CpuKernel> make_attention_backward_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<AttentionBackwardKernel>(op, context);
}

}  // namespace

const CpuOp attention_backward_on_cpu = {make_attention_backward_kernel, takes_16_bit,
                                         attention_backward_workspace_bytes};

}  // namespace trainer
