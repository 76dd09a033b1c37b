#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/errors.h"
#include "engine/ops/attention.h"
#include "engine/ops/op.h"
#include "engine/train/onnx/onnx_values.h"

namespace trainer {
namespace {

class OnnxAttention {
 public:
  OnnxAttention(OnnxValues& values, const Op& op)
      : values_(values), attributes_(attributes_of<AttentionAttributes>(op)), shape_(attention_shape(op)) {}

  std::string of(std::vector<std::string> operands) {
    if (operands.size() == 1) operands = parts_of(operands.front());
    const std::string q = rotated(heads_of(operands[0], shape_.queries, shape_.heads), shape_.queries);
    const std::string k = shared(rotated(heads_of(operands[1], shape_.keys, shape_.kv_heads), shape_.keys));
    const std::string v = shared(heads_of(operands[2], shape_.keys, shape_.kv_heads));
    const std::string scaled = values_.add("Mul", {q, values_.onnx().number(score_scale(shape_.width))});
    std::string scores = values_.add("MatMul", {scaled, values_.turned(k, {0, 1, 3, 2})});
    if (attributes_.causal) scores = hidden(scores);
    const std::string weights = values_.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const std::string heads = values_.turned(values_.add("MatMul", {weights, v}), {0, 2, 1, 3});
    return values_.reshaped(heads, {-1, shape_.queries, shape_.heads * shape_.width});
  }

 private:
  std::vector<std::string> parts_of(const std::string& packed) {
    const std::int64_t keys = shape_.kv_heads * shape_.width;
    const std::string rows = values_.reshaped(packed, {-1, shape_.queries, shape_.heads * shape_.width + 2 * keys});
    return values_.onnx().add_several(values_.scope(), "Split",
                                      {rows, values_.onnx().integers({shape_.heads * shape_.width, keys, keys})}, 3,
                                      {{"axis", std::int64_t{-1}}});
  }

  /// (samples, heads, positions, width)
  std::string heads_of(const std::string& rows, std::int64_t positions, std::int64_t heads) {
    return values_.turned(values_.reshaped(rows, {-1, positions, heads, shape_.width}), {0, 2, 1, 3});
  }

  std::string rotated(const std::string& heads, std::int64_t positions) {
    if (attributes_.rotary_base <= 0) return heads;
    const std::vector<float> frequencies = rotary_frequencies(attributes_, shape_.width);
    std::vector<float> cosines, sines;
    for (std::int64_t position = 0; position < positions; ++position) {
      for (const float frequency : frequencies) {
        const float angle = static_cast<float>(position) * frequency;
        cosines.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
        sines.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
      }
    }
    const OnnxDims dims = {positions, static_cast<std::int64_t>(frequencies.size())};
    const std::string cosine = values_.onnx().numbers(cosines, dims), sine = values_.onnx().numbers(sines, dims);
    const std::int64_t half = shape_.width / 2;
    const std::vector<std::string> halves = values_.onnx().add_several(
        values_.scope(), "Split", {heads, values_.onnx().integers({half, half})}, 2, {{"axis", std::int64_t{-1}}});
    const auto product = [&](const std::string& a, const std::string& b) { return values_.add("Mul", {a, b}); };
    const std::string front = values_.add("Sub", {product(halves[0], cosine), product(halves[1], sine)});
    const std::string back = values_.add("Add", {product(halves[1], cosine), product(halves[0], sine)});
    return values_.add("Concat", {front, back}, {{"axis", std::int64_t{-1}}});
  }

  /// Keys or values for each head of queries.
  std::string shared(const std::string& heads) {
    if (shape_.group() == 1) return heads;
    const std::string apart = values_.reshaped(heads, {-1, shape_.kv_heads, 1, shape_.keys, shape_.width});
    const std::string repeated = values_.add("Expand", {apart, values_.onnx().integers({1, 1, shape_.group(), 1, 1})});
    return values_.reshaped(repeated, {-1, shape_.heads, shape_.keys, shape_.width});
  }

  /// Scores of −∞ where a query does not see a key. Which those are follows from the positions, so that no matrix of
  /// them is part of the model.
  std::string hidden(const std::string& scores) {
    std::vector<std::int64_t> places(static_cast<std::size_t>(shape_.keys));
    std::iota(places.begin(), places.end(), std::int64_t{0});
    const std::string keys = values_.onnx().integers(places);
    const std::string queries = values_.reshaped(keys, {shape_.queries, 1});
    std::string seen = values_.add("LessOrEqual", {keys, queries});
    if (attributes_.window > 0) {
      const std::string last_hidden = values_.add("Sub", {queries, values_.onnx().integers({attributes_.window})});
      seen = values_.add("And", {seen, values_.add("Greater", {keys, last_hidden})});
    }
    return values_.add("Where", {seen, scores, values_.onnx().number(-std::numeric_limits<float>::infinity())});
  }

  OnnxValues& values_;
  const AttentionAttributes& attributes_;
  const AttentionShape shape_;
};

}  // namespace

std::string onnx_attention(OnnxValues& values, const Op& op, const std::vector<std::string>& operands) {
  return OnnxAttention(values, op).of(operands);
}

}  // namespace trainer
