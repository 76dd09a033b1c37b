#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/cpu/attention_rows.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/vector_math.h"
#include "engine/half.h"
#include "engine/ops/cached_attention.h"
#include "engine/simd.h"

namespace trainer {
namespace {

/// Keys whose scores are computed at once.
constexpr std::int64_t cached_block_keys = 32;

TRAINER_SIMD float product_of_rows(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

TRAINER_SIMD void add_scaled_row(float factor, const float* row, float* sums, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sums[i] += factor * row[i];
}

TRAINER_SIMD void scale_row(float factor, float* sums, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sums[i] *= factor;
}

/// scores = e^(scores − largest); returns their sum.
TRAINER_SIMD float exponentials(float* scores, std::int64_t count, float largest) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = vector_exp_of_difference(scores[i] - largest);
    sum += scores[i];
  }
  return sum;
}

/// Of one query head: what it has seen so far.
struct SeenKeys {
  alignas(64) float query[most_head_width];
  alignas(64) float sums[most_head_width];
  float largest = std::numeric_limits<float>::lowest();
  float total = 0;

  void add(const float* keys, const float* values, std::int64_t count, std::int64_t step, std::int64_t width) {
    float scores[cached_block_keys];
    float highest = largest;
    for (std::int64_t i = 0; i < count; ++i) {
      scores[i] = product_of_rows(query, keys + i * step, width);
      highest = std::max(highest, scores[i]);
    }
    const float factor = vector_exp_of_difference(largest - highest);
    if (factor != 1.0F) scale_row(factor, sums, width);
    total = total * factor + exponentials(scores, count, highest);
    largest = highest;
    for (std::int64_t i = 0; i < count; ++i) add_scaled_row(scores[i], values + i * step, sums, width);
  }
};

class CachedAttentionKernel final : public CpuKernel {
 public:
  CachedAttentionKernel(const Op& op, const CpuContext& context)
      : attributes_(attributes_of<AttentionAttributes>(op)),
        shape_(cached_attention_shape(op)),
        new_shape_(shape_),
        type_(op.outputs[0].dtype),
        num_attended_(num_attended(op)),
        table_(shape_, attributes_) {
    new_shape_.keys = shape_.queries;
    const std::int64_t row_features = shape_.kv_heads * shape_.width;
    num_threads_ = shape_.samples * shape_.keys * row_features <= serial_elements / 4 ? 1 : context.num_threads;
  }

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const HeadOperands operands = head_operands(new_shape_, type_, num_attended_ == 1, addresses.inputs.data());
    const HeadRows y = output_rows(new_shape_, type_, addresses.outputs[0]);
    const auto* const positions = input<std::int32_t>(addresses, num_attended_);
    const std::int64_t row_features = shape_.kv_heads * shape_.width;
    const auto cache = [&](int operand) {
      return HeadRows{modified_input<std::byte>(addresses, operand), type_, shape_.keys, row_features, shape_.width};
    };
    const HeadRows keys = cache(num_attended_ + 1), values = cache(num_attended_ + 2);
    const std::int64_t num_tokens = shape_.samples * shape_.queries, num_tasks = num_tokens * shape_.kv_heads;
    // All keys of a chunk are there before the first is read.
    parallel_tasks(num_threads_, num_tasks, [&](std::int64_t task) {
      const std::int64_t token = task / shape_.kv_heads;
      if (is_token(positions[token]))
        keep_token(operands, keys, values, token, task % shape_.kv_heads, positions[token]);
    });
    parallel_tasks(num_threads_, num_tasks, [&](std::int64_t task) {
      const std::int64_t token = task / shape_.kv_heads;
      attend(operands.q, keys, values, y, token, task % shape_.kv_heads, positions[token]);
    });
  }

 private:
  bool is_token(std::int64_t position) const { return position >= 0 && position < shape_.keys; }
  std::int64_t sample_of(std::int64_t token) const { return token / shape_.queries; }
  std::int64_t place_of(std::int64_t token) const { return token % shape_.queries; }
  std::size_t element_bytes() const { return size_of(type_); }

  void load_rotated(const std::byte* row, std::int64_t position, float* to) const {
    widen(type_, row, to, shape_.width);
    if (!table_.rotates()) return;
    alignas(64) float angles[most_head_width];
    table_.fill_row(position, angles);
    rotate_row(to, angles, shape_.width);
  }

  void keep_token(const HeadOperands& operands, const HeadRows& keys, const HeadRows& values, std::int64_t token,
                  std::int64_t head, std::int64_t position) const {
    const std::int64_t sample = sample_of(token);
    alignas(64) float key[most_head_width];
    load_rotated(operands.k.row(sample, head, place_of(token)), position, key);
    narrow(type_, key, keys.row(sample, head, position), shape_.width);
    const std::byte* const value = operands.v.row(sample, head, place_of(token));
    std::copy_n(value, static_cast<std::size_t>(shape_.width) * element_bytes(), values.row(sample, head, position));
  }

  /// All query heads that read one head of keys, one after the other over each block of them.
  void attend(const HeadRows& q, const HeadRows& keys, const HeadRows& values, const HeadRows& y, std::int64_t token,
              std::int64_t kv_head, std::int64_t position) const {
    const std::int64_t sample = sample_of(token), width = shape_.width, group = shape_.group();
    for (std::int64_t first = kv_head * group; first < (kv_head + 1) * group; first += most_heads_at_once) {
      const std::int64_t count = std::min(most_heads_at_once, (kv_head + 1) * group - first);
      SeenKeys seen[most_heads_at_once];
      for (std::int64_t h = 0; h < count; ++h) {
        std::fill_n(seen[h].sums, width, 0.0F);
        if (!is_token(position)) continue;
        load_rotated(q.row(sample, first + h, place_of(token)), position, seen[h].query);
        scale_row(score_scale(width), seen[h].query, width);
      }
      if (is_token(position)) see_keys(keys, values, sample, kv_head, position, seen, count);
      for (std::int64_t h = 0; h < count; ++h) {
        if (is_token(position)) scale_row(1.0F / seen[h].total, seen[h].sums, width);
        narrow(type_, seen[h].sums, y.row(sample, first + h, place_of(token)), width);
      }
    }
  }

  void see_keys(const HeadRows& keys, const HeadRows& values, std::int64_t sample, std::int64_t kv_head,
                std::int64_t position, SeenKeys* seen, std::int64_t count) const {
    const std::int64_t width = shape_.width;
    const std::int64_t begin =
        attributes_.window > 0 ? std::max<std::int64_t>(0, position + 1 - attributes_.window) : 0;
    alignas(64) float widened[2][cached_block_keys * most_head_width];
    for (std::int64_t key = begin; key <= position; key += cached_block_keys) {
      const std::int64_t num_keys = std::min(cached_block_keys, position + 1 - key);
      const auto* block_keys = reinterpret_cast<const float*>(keys.row(sample, kv_head, key));
      const auto* block_values = reinterpret_cast<const float*>(values.row(sample, kv_head, key));
      std::int64_t step = keys.row_features;
      if (type_ != DType::f32) {
        for (std::int64_t i = 0; i < num_keys; ++i) {
          widen(type_, keys.row(sample, kv_head, key + i), widened[0] + i * width, width);
          widen(type_, values.row(sample, kv_head, key + i), widened[1] + i * width, width);
        }
        block_keys = widened[0];
        block_values = widened[1];
        step = width;
      }
      for (std::int64_t h = 0; h < count; ++h) seen[h].add(block_keys, block_values, num_keys, step, width);
    }
  }

  static constexpr std::int64_t most_heads_at_once = 8;

  AttentionAttributes attributes_;
  AttentionShape shape_, new_shape_;  ///< the keys being those of the caches, and the new ones
  DType type_;
  int num_attended_;
  RotaryTable table_;
  int num_threads_ = 1;
};

std::unique_ptr<CpuKernel> make_cached_attention_kernel(const Op& op, CpuContext& context) {
  return std::make_unique<CachedAttentionKernel>(op, context);
}

}  // namespace

const CpuOp cached_attention_on_cpu = {make_cached_attention_kernel, takes_16_bit};

}  // namespace trainer
