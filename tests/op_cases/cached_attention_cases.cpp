#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "tests/op_cases/op_case.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {

namespace {

struct CachedCase {
  std::string name;
  std::int64_t samples, tokens, length, width;
  AttentionAttributes attributes;  ///< but for `causal`
  std::vector<std::int64_t> positions;
  bool packed = false;
};

std::vector<CachedCase> cached_shapes() {
  return {
      {"the first token", 1, 1, 1, 2, {}, {0}},
      {"the last that has room", 1, 1, 9, 3, {.heads = 2, .kv_heads = 2}, {8}},
      {"two texts, not of one length", 2, 1, 7, 4, {.heads = 2, .kv_heads = 1}, {6, 2}},
      {"a piece", 1, 4, 11, 5, {.heads = 3, .kv_heads = 3}, {3, 4, 5, 6}, true},
      {"a piece that ends early", 2, 4, 6, 4, {.heads = 4, .kv_heads = 2}, {4, 5, -1, -1, 0, 1, 2, -1}, true},
      {"without room", 1, 3, 4, 2, {.heads = 2, .kv_heads = 2}, {3, 4, 2147483647}, true},
      {"rotary", 2, 3, 8, 6, {.heads = 4, .kv_heads = 2, .rotary_base = 100}, {5, 6, 7, 0, 1, 2}, true},
      {"window", 1, 2, 9, 3, {.heads = 2, .kv_heads = 1, .window = 3}, {7, 8}},
      {"window beyond the first", 1, 2, 5, 2, {.window = 100}, {0, 1}},
      {"blocks of keys", 1, 2, 131, 16, {.heads = 2, .kv_heads = 1, .rotary_base = 10000}, {129, 130}},
      {"many heads for one", 1, 1, 40, 8, {.heads = 19, .kv_heads = 1}, {39}, true},
      {"wide heads", 1, 1, 9, 65, {.heads = 2, .kv_heads = 1}, {5}},
      {"heads of the most", 1, 2, 5, 256, {.rotary_base = 10000}, {3, 4}},
  };
}

Op op_of(const CachedCase& c, DType type) {
  AttentionAttributes attributes = c.attributes;
  attributes.causal = true;
  const std::int64_t q = attributes.heads * c.width, k = attributes.kv_heads * c.width;
  const auto of = [&](std::int64_t features) { return TensorType{type, {c.samples, c.tokens, features}}; };
  return cached_attention_op(
      c.packed ? attention_op(of(q + 2 * k), attributes) : attention_op(of(q), of(k), of(k), attributes), c.length);
}

/// Features of a head of q, k or v (0, 1, 2) of one new token, not rotated.
Values row_of(const CachedCase& c, const std::vector<Values>& inputs, int which, std::int64_t token,
              std::int64_t head) {
  const std::int64_t heads[] = {c.attributes.heads, c.attributes.kv_heads, c.attributes.kv_heads};
  std::int64_t row = heads[which] * c.width, before = 0;
  if (c.packed) {
    row = (heads[0] + heads[1] + heads[2]) * c.width;
    for (int i = 0; i < which; ++i) before += heads[i] * c.width;
  }
  const Values& values = inputs[c.packed ? 0 : static_cast<std::size_t>(which)];
  const auto first = values.begin() + token * row + before + head * c.width;
  return {first, first + c.width};
}

Values turned(const CachedCase& c, const Values& x, std::int64_t position) {
  if (c.attributes.rotary_base <= 0) return x;
  Values y = x;
  for (std::int64_t i = 0; i < c.width / 2; ++i) {
    const auto first = static_cast<std::size_t>(i), second = static_cast<std::size_t>(i + c.width / 2);
    const double angle = static_cast<double>(position) *
                         std::pow(c.attributes.rotary_base, -2 * static_cast<double>(i) / static_cast<double>(c.width));
    y[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
    y[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
  }
  return y;
}

/// Keys are rounded as they are kept, and read so.
Expected expected_of(const CachedCase& c, DType type, const std::vector<Values>& inputs) {
  const AttentionAttributes& a = c.attributes;
  const std::size_t behind = c.packed ? 1 : 3;
  Values keys = inputs[behind + 1], values = inputs[behind + 2];
  const auto has_room = [&](std::int64_t position) { return position >= 0 && position < c.length; };
  const auto kept = [&](Values& cache, std::int64_t token, std::int64_t position, std::int64_t head) {
    return cache.begin() + (token / c.tokens * c.length + position) * a.kv_heads * c.width + head * c.width;
  };
  const std::int64_t num_tokens = c.samples * c.tokens;
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    const std::int64_t position = c.positions[static_cast<std::size_t>(t)];
    for (std::int64_t h = 0; has_room(position) && h < a.kv_heads; ++h) {
      const Values key = rounded_to(type, turned(c, row_of(c, inputs, 1, t, h), position)),
                   value = row_of(c, inputs, 2, t, h);
      std::copy(key.begin(), key.end(), kept(keys, t, position, h));
      std::copy(value.begin(), value.end(), kept(values, t, position, h));
    }
  }
  Values y;
  for (std::int64_t t = 0; t < num_tokens; ++t)
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const std::int64_t position = c.positions[static_cast<std::size_t>(t)], kv_head = h / (a.heads / a.kv_heads);
      Values sums(static_cast<std::size_t>(c.width));
      double total = 0;
      if (has_room(position)) {
        const Values q = turned(c, row_of(c, inputs, 0, t, h), position);
        for (std::int64_t p = 0; p <= position; ++p) {
          if (a.window > 0 && p <= position - a.window) continue;
          double score = 0;
          for (std::int64_t f = 0; f < c.width; ++f)
            score += q[static_cast<std::size_t>(f)] * kept(keys, t, p, kv_head)[f];
          const double weight = std::exp(score / std::sqrt(static_cast<double>(c.width)));
          total += weight;
          for (std::int64_t f = 0; f < c.width; ++f)
            sums[static_cast<std::size_t>(f)] += weight * kept(values, t, p, kv_head)[f];
        }
      }
      for (const double sum : sums) y.push_back(total > 0 ? sum / total : 0);
    }
  return {{y}, {{static_cast<int>(behind) + 1, keys}, {static_cast<int>(behind) + 2, values}}};
}

}  // namespace

std::vector<OpCase> cached_attention_cases() {
  std::vector<OpCase> cases;
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const CachedCase& c : cached_shapes()) {
      const Op op = op_of(c, type);
      std::vector<Values> inputs;
      for (const TensorType& of_input : op.inputs) {
        if (of_input.dtype == DType::i32)
          inputs.emplace_back(c.positions.begin(), c.positions.end());
        else
          inputs.push_back(rounded_to(type, random_values(of_input, static_cast<int>(inputs.size()) + 1, -2, 2)));
      }
      cases.push_back({fmt::format("{}, {}", c.name, name_of(type)), op, inputs, expected_of(c, type, inputs)});
      // A key that lies between two numbers of 16 bits may be either.
      cases.back().tolerance += rounding_of(type);
    }
  return cases;
}

}  // namespace trainer
