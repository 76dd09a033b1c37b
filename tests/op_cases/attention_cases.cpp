#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/philox.h"
#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct AttentionCase {
  std::string name;
  std::int64_t samples, queries, keys, width;  ///< of a head
  AttentionAttributes attributes;
  bool packed = false;
  /// Lengths of documents, which every second sample has in the other order; none: there are no spans.
  std::vector<std::int64_t> documents{};
};

struct DocumentSpan {
  std::int64_t begin = 0, end = 0;
};

/// Of a position; all of them where there are no documents.
DocumentSpan span_of(const AttentionCase& c, std::int64_t sample, std::int64_t position) {
  if (c.documents.empty()) return {0, c.keys};
  std::vector<std::int64_t> lengths = c.documents;
  if (sample % 2 == 1) std::reverse(lengths.begin(), lengths.end());
  DocumentSpan span;
  for (const std::int64_t length : lengths) {
    span = {span.end, span.end + length};
    if (position < span.end) break;
  }
  return span;
}

std::vector<AttentionCase> attention_shapes() {
  const std::vector<AttentionCase> apart = {
      {"one of one", 1, 1, 1, 1, {}},
      {"one query of many keys", 1, 1, 7, 3, {.heads = 2, .kv_heads = 2}},
      {"many queries of one key", 1, 5, 1, 2, {}},
      {"as it is", 2, 5, 5, 3, {.heads = 3, .kv_heads = 3}},
      {"cross attention", 2, 5, 9, 4, {.heads = 2, .kv_heads = 2}},
      {"cross attention of groups, rotary", 1, 6, 4, 6, {.heads = 4, .kv_heads = 2, .rotary_base = 100}},
      {"causal", 2, 7, 7, 5, {.heads = 2, .kv_heads = 2, .causal = true}},
      {"dropout", 2, 6, 7, 3, {.heads = 2, .kv_heads = 2, .p = 0.3, .stream = 5}},
      {"dropout of some heads",
       2,
       6,
       7,
       3,
       {.heads = 2, .kv_heads = 2, .p = 0.3, .stream = 5, .all_heads = 7, .first_head = 4}},
      // More than a block of queries and of keys, and no number of whole ones.
      {"blocks", 1, 67, 99, 17, {}},
      {"documents", 2, 9, 9, 3, {.heads = 2, .kv_heads = 1}, false, {4, 1, 4}},
      {"causal documents", 2, 7, 7, 2, {.heads = 2, .kv_heads = 2, .causal = true}, false, {3, 4}},
  };
  const std::vector<AttentionCase> packed = {
      {"one position", 2, 1, 1, 2, {.heads = 2, .kv_heads = 2, .causal = true, .rotary_base = 10000}},
      {"as it is", 2, 6, 6, 4, {.heads = 2, .kv_heads = 2}},
      {"groups", 1, 5, 5, 4, {.heads = 6, .kv_heads = 2, .causal = true}},
      {"one head of keys", 2, 4, 4, 3, {.heads = 3, .kv_heads = 1}},
      {"window of one", 1, 5, 5, 3, {.causal = true, .window = 1}},
      {"window", 1, 9, 9, 4, {.heads = 2, .kv_heads = 1, .causal = true, .window = 3, .rotary_base = 10000}},
      {"window beyond the first", 1, 5, 5, 2, {.causal = true, .window = 100}},
      {"everything",
       2,
       7,
       7,
       6,
       {.heads = 4, .kv_heads = 2, .causal = true, .window = 5, .rotary_base = 500, .p = 0.25, .stream = 9}},
      {"causal blocks", 1, 131, 131, 16, {.causal = true}},
      {"window of blocks", 1, 203, 203, 8, {.causal = true, .window = 33}},
      {"dropped blocks", 1, 70, 70, 6, {.heads = 2, .kv_heads = 1, .causal = true, .p = 0.5, .stream = 2}},
      // Of six pairs of features three turn as they did, one slower by a share of 4, two by all of it.
      {"stretched",
       1,
       9,
       9,
       12,
       {.causal = true,
        .rotary_base = 30,
        .rotary_stretch = {.factor = 4, .low_freq_factor = 1, .high_freq_factor = 3, .original_length = 60}}},
      {"wide heads", 1, 19, 19, 65, {.heads = 2, .kv_heads = 1, .causal = true}},
      {"heads of more than 128", 1, 11, 11, 130, {.causal = true, .rotary_base = 10000}},
      {"heads of the most", 1, 5, 5, 256, {.rotary_base = 10000}},
      {"one document", 1, 6, 6, 2, {.causal = true}, false, {6}},
      {"documents of one token", 1, 3, 3, 2, {.heads = 2, .kv_heads = 2}, false, {1, 1, 1}},
      {"blocks of documents", 2, 147, 147, 8, {.heads = 2, .kv_heads = 1}, false, {17, 50, 1, 66, 13}},
      {"documents, everything",
       2,
       141,
       141,
       6,
       {.heads = 2, .kv_heads = 1, .causal = true, .window = 40, .rotary_base = 500, .p = 0.25, .stream = 9},
       false,
       {90, 7, 44}},
  };
  std::vector<AttentionCase> all = apart;
  for (AttentionCase c : packed) {
    c.packed = true;
    c.name = "packed: " + c.name;
    all.push_back(std::move(c));
  }
  return all;
}

Op op_of(const AttentionCase& c) {
  const std::int64_t q = c.attributes.heads * c.width, k = c.attributes.kv_heads * c.width;
  const TensorType keys{DType::f32, {c.samples, c.keys, k}};
  const Op op = c.packed ? attention_op({DType::f32, {c.samples, c.queries, q + 2 * k}}, c.attributes)
                         : attention_op({DType::f32, {c.samples, c.queries, q}}, keys, keys, c.attributes);
  return c.documents.empty() ? op : attention_within_spans_op(op, {DType::i32, {c.samples, c.queries, 2}});
}

StepScalars attention_scalars() { return {.seed = 0x123456789ABCDEFULL, .pass = 5}; }

/// Query heads, then heads of keys, then heads of values, of what is packed or of three.
double feature(const AttentionCase& c, const std::vector<Values>& inputs, int operand, std::int64_t sample,
               std::int64_t position, std::int64_t head, std::int64_t i) {
  const std::int64_t heads = c.attributes.heads, kv_heads = c.attributes.kv_heads;
  const std::int64_t positions = operand == 0 ? c.queries : c.keys, own_heads = operand == 0 ? heads : kv_heads;
  const std::int64_t before = !c.packed || operand == 0 ? 0 : operand == 1 ? heads : heads + kv_heads;
  const std::int64_t row = (c.packed ? heads + 2 * kv_heads : own_heads) * c.width;
  const Values& values = inputs[c.packed ? 0 : static_cast<std::size_t>(operand)];
  return values[static_cast<std::size_t>((sample * positions + position) * row + (before + head) * c.width + i)];
}

/// By wavelengths, as transformers has it.
double stretched(const RotaryStretch& stretch, double frequency) {
  if (stretch.factor == 1) return frequency;
  const double wavelength = 2 * 3.14159265358979 / frequency;
  const auto length = static_cast<double>(stretch.original_length);
  if (wavelength < length / stretch.high_freq_factor) return frequency;
  if (wavelength > length / stretch.low_freq_factor) return frequency / stretch.factor;
  const double smooth =
      (length / wavelength - stretch.low_freq_factor) / (stretch.high_freq_factor - stretch.low_freq_factor);
  return frequency * ((1 - smooth) / stretch.factor + smooth);
}

Values rotated_row(const AttentionCase& c, const std::vector<Values>& inputs, int operand, std::int64_t sample,
                   std::int64_t position, std::int64_t head) {
  Values row;
  for (std::int64_t i = 0; i < c.width; ++i) row.push_back(feature(c, inputs, operand, sample, position, head, i));
  if (c.attributes.rotary_base <= 0 || operand == 2) return row;
  const Values x = row;
  for (std::int64_t i = 0; i < c.width / 2; ++i) {
    const auto first = static_cast<std::size_t>(i), second = static_cast<std::size_t>(i + c.width / 2);
    const double exponent = -2 * static_cast<double>(i) / static_cast<double>(c.width);
    const double angle = static_cast<double>(position) *
                         stretched(c.attributes.rotary_stretch, std::pow(c.attributes.rotary_base, exponent));
    row[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
    row[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
  }
  return row;
}

struct AttentionResult {
  Values y, lse;
};

AttentionResult attend(const AttentionCase& c, const std::vector<Values>& inputs) {
  const AttentionAttributes& a = c.attributes;
  AttentionResult result;
  result.y.resize(static_cast<std::size_t>(c.samples * c.queries * a.heads * c.width));
  const PhiloxStream philox{attention_scalars().seed, a.stream, attention_scalars().pass};
  for (std::int64_t n = 0; n < c.samples; ++n)
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const std::int64_t kv_head = h / (a.heads / a.kv_heads);
      std::vector<Values> keys, values;
      for (std::int64_t j = 0; j < c.keys; ++j) {
        keys.push_back(rotated_row(c, inputs, 1, n, j, kv_head));
        values.push_back(rotated_row(c, inputs, 2, n, j, kv_head));
      }
      for (std::int64_t i = 0; i < c.queries; ++i) {
        const Values q = rotated_row(c, inputs, 0, n, i, h);
        double sum = 0;
        Values y(static_cast<std::size_t>(c.width));
        for (std::int64_t j = 0; j < c.keys; ++j) {
          if (a.causal && (j > i || (a.window > 0 && j <= i - a.window))) continue;
          const DocumentSpan span = span_of(c, n, i);
          if (j < span.begin || j >= span.end) continue;
          double score = 0;
          for (std::size_t f = 0; f < q.size(); ++f) score += q[f] * keys[static_cast<std::size_t>(j)][f];
          const double weight = std::exp(score / std::sqrt(static_cast<double>(c.width)));
          sum += weight;
          const std::int64_t head = a.all_heads > 0 ? n * a.all_heads + a.first_head + h : n * a.heads + h;
          const std::int64_t element = (head * c.keys + j) * ((c.queries + 3) / 4 * 4) + i;
          const bool kept = philox.uniform(static_cast<std::uint64_t>(element)) >= static_cast<float>(a.p);
          if (!kept) continue;
          for (std::size_t f = 0; f < y.size(); ++f)
            y[f] += weight / (1 - a.p) * values[static_cast<std::size_t>(j)][f];
        }
        result.lse.push_back(std::log(sum));
        for (std::int64_t f = 0; f < c.width; ++f)
          result.y[static_cast<std::size_t>(((n * c.queries + i) * a.heads + h) * c.width + f)] =
              y[static_cast<std::size_t>(f)] / sum;
      }
    }
  return result;
}

std::vector<Values> inputs_of(const AttentionCase& c) {
  std::vector<Values> inputs;
  for (const TensorType& type : op_of(c).inputs)
    inputs.push_back(random_values(type, static_cast<int>(inputs.size()) + 1, -2, 2));
  if (c.documents.empty()) return inputs;
  inputs.back().clear();
  for (std::int64_t n = 0; n < c.samples; ++n)
    for (std::int64_t i = 0; i < c.queries; ++i) {
      const DocumentSpan span = span_of(c, n, i);
      inputs.back().push_back(static_cast<double>(span.begin));
      inputs.back().push_back(static_cast<double>(span.end));
    }
  return inputs;
}

Values in_f32(Values values) {
  for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  return values;
}

}  // namespace

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  for (const AttentionCase& c : attention_shapes()) {
    const auto inputs = inputs_of(c);
    AttentionResult result = attend(c, inputs);
    cases.push_back({c.name, op_of(c), inputs, {{result.y, result.lse}}, attention_scalars()});
  }
  // Of images.
  {
    const AttentionCase c{"images", 2, 6, 4, 3, {.heads = 2, .kv_heads = 1}};
    const auto inputs = inputs_of(c);
    const TensorType keys{DType::f32, {2, 1, 4, 3}};
    AttentionResult result = attend(c, inputs);
    const Op op = attention_op({DType::f32, {2, 2, 3, 6}}, keys, keys, c.attributes);
    cases.push_back({c.name, op, inputs, {{result.y, result.lse}}, attention_scalars()});
  }
  // Scores so far apart that all weight is on one key, and so large that their exponentials are infinite.
  for (const double largest : {96.0, 3000.0}) {
    const AttentionCase c{"large scores", 1, 3, 70, 1, {}};
    std::vector<Values> inputs = inputs_of(c);
    inputs[0] = {1, -1, 0.5};
    for (std::size_t j = 0; j < inputs[1].size(); ++j)
      inputs[1][j] = largest * (static_cast<double>(j % 37) / 32 - 0.5);
    AttentionResult result = attend(c, inputs);
    // What the reference cannot hold: the largest score of query 0 is that of keys 36, of query 1 that of keys 0
    // and 37.
    if (largest > 1000) {
      const Values& v = inputs[2];
      result.y = {v[36], (v[0] + v[37]) / 2, v[36]};
      result.lse = {largest * 0.625, largest * 0.5 + std::log(2), largest * 0.3125};
    }
    cases.push_back({c.name + " of " + std::to_string(static_cast<int>(largest)),
                     op_of(c),
                     inputs,
                     {{result.y, result.lse}},
                     attention_scalars()});
  }
  return cases;
}

std::vector<OpCase> attention_backward_cases() {
  std::vector<OpCase> cases;
  for (const AttentionCase& c : attention_shapes()) {
    const auto inputs = inputs_of(c);
    const Op op = op_of(c);
    const AttentionResult result = attend(c, inputs);
    const Values dy = random_values(op.outputs[0], 9);
    const Reference f = [&](const std::vector<Values>& at) { return attend(c, at).y; };
    std::vector<Values> backward = {dy};
    backward.insert(backward.end(), inputs.begin(), inputs.end());
    backward.push_back(in_f32(result.y));
    backward.push_back(in_f32(result.lse));
    Expected expected;
    for (std::size_t i = 0; i < attention_backward_op(op).outputs.size(); ++i)
      expected.outputs.push_back(finite_difference(f, inputs, i, dy));
    cases.push_back({c.name, attention_backward_op(op), backward, expected, attention_scalars()});
    cases.back().tolerance = 1e-4;
  }
  return cases;
}

}  // namespace trainer
