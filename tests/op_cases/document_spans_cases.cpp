#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct DocumentsCase {
  std::string name;
  Values tokens;
  std::int64_t samples;
  DocumentSpansAttributes attributes;
};

/// Tokens 0 … 6 by chance: of some seven one begins a document, and one is padding.
DocumentsCase drawn_documents(std::int64_t samples, std::int64_t length) {
  Values tokens = random_values(samples * length, static_cast<int>(length), 0, 7);
  for (double& token : tokens) token = std::floor(token);
  return {std::to_string(samples) + " of " + std::to_string(length), tokens, samples, {3, 5}};
}

std::vector<DocumentsCase> documents_cases() {
  std::vector<DocumentsCase> cases = {
      {"one token", {7}, 1, {7, {}}},
      {"one document", {1, 2, 4, 2, 1}, 1, {7, {}}},
      {"it begins with its token", {7, 2, 7, 7, 1, 7}, 1, {7, {}}},
      {"samples", {1, 7, 2, 3, 7, 1, 2, 7}, 2, {7, {}}},
      {"padding behind", {7, 2, 3, 0, 0, 0, 7, 0, 0, 0, 0, 0}, 2, {7, 0}},
      {"padding in front and between", {0, 0, 3, 0, 7, 4, 0, 7}, 1, {7, 0}},
      {"padding alone", {0, 0, 0}, 1, {7, 0}},
  };
  for (const std::int64_t length : {255, 256, 257, 1031, 4097}) cases.push_back(drawn_documents(3, length));
  return cases;
}

}  // namespace

std::vector<OpCase> document_spans_cases() {
  std::vector<OpCase> cases;
  for (const DocumentsCase& c : documents_cases()) {
    const auto length = static_cast<std::int64_t>(c.tokens.size()) / c.samples;
    Values spans, places;
    for (std::int64_t n = 0; n < c.samples; ++n) {
      const double* const tokens = c.tokens.data() + n * length;
      // The document of each token, counted.
      std::vector<int> documents;
      for (std::int64_t i = 0; i < length; ++i) {
        const auto pads = [&](std::int64_t at) {
          return c.attributes.pad_token.has_value() && tokens[at] == *c.attributes.pad_token;
        };
        const bool is_next = i > 0 && (tokens[i] == c.attributes.document_token || pads(i) != pads(i - 1));
        documents.push_back(i == 0 ? 0 : documents.back() + (is_next ? 1 : 0));
      }
      for (std::int64_t i = 0; i < length; ++i) {
        const auto range = std::equal_range(documents.begin(), documents.end(), documents[static_cast<std::size_t>(i)]);
        spans.push_back(static_cast<double>(range.first - documents.begin()));
        spans.push_back(static_cast<double>(range.second - documents.begin()));
        places.push_back(static_cast<double>(i) - static_cast<double>(range.first - documents.begin()));
      }
    }
    const Op op = document_spans_op({DType::i32, {c.samples, length}}, c.attributes);
    cases.push_back({c.name, op, {c.tokens}, {{spans, places}}});
    cases.back().tolerance = 0;
  }
  return cases;
}

}  // namespace trainer
