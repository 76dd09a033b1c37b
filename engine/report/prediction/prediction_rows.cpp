#include "engine/report/prediction/prediction_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <vector>

#include "engine/config/text/json_output.h"

namespace trainer {
namespace {

using RowJson = nlohmann::ordered_json;

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + '"';
}

void add_cell(std::string& line, std::string_view text) {
  if (!line.empty()) line += ',';
  line += csv_cell(text);
}

std::string number_cell(double value) { return fmt::format("{}", static_cast<float>(value)); }

/// Positions of the likeliest, the first of equal ones first.
std::vector<std::size_t> likeliest(std::span<const double> values, std::int64_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto most = order.begin() + std::min<std::ptrdiff_t>(count, static_cast<std::ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), most, order.end(), [&](std::size_t a, std::size_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  order.erase(most, order.end());
  return order;
}

std::int64_t num_told(const PredictionOutputs& outputs, const PredictionRowOptions& options) {
  return std::min(std::max<std::int64_t>(options.top, 1), outputs.num_values());
}

std::string numbered_column(const char* name, std::int64_t number) {
  return number == 1 ? std::string(name) : fmt::format("{}_{}", name, number);
}

std::string token_cell(const PredictionOutputs& outputs, std::size_t token) {
  return outputs.names.empty() ? fmt::format("{}", token) : outputs.names[token];
}

std::vector<std::string> columns_of(const PredictionOutputs& outputs, const PredictionRowOptions& options) {
  std::vector<std::string> columns = {"input"};
  const auto add_probabilities = [&] {
    for (const std::string& name : outputs.names) columns.push_back(fmt::format("p({})", name));
  };
  switch (outputs.kind) {
    case PredictedKind::classes:
      for (std::int64_t i = 1; i <= num_told(outputs, options); ++i) {
        columns.push_back(numbered_column("class", i));
        columns.push_back(numbered_column("probability", i));
      }
      if (options.top == 0) add_probabilities();
      break;
    case PredictedKind::labels:
      columns.emplace_back("labels");
      add_probabilities();
      break;
    case PredictedKind::numbers:
      columns.insert(columns.end(), outputs.names.begin(), outputs.names.end());
      break;
    case PredictedKind::class_map:
      columns.emplace_back("mask");
      break;
    case PredictedKind::next_token:
      columns.insert(columns.end(), {"tokens", "loss", "perplexity"});
      for (std::int64_t i = 1; i <= num_told(outputs, options); ++i) {
        columns.push_back(numbered_column("next", i));
        columns.push_back(numbered_column("probability", i));
      }
      break;
  }
  columns.emplace_back("error");
  return columns;
}

constexpr double least_of_label = 0.5;

std::vector<std::string> labels_of(const PredictionOutputs& outputs, std::span<const double> values) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] >= least_of_label) labels.push_back(outputs.names[i]);
  return labels;
}

void add_values(std::string& line, const PredictionOutputs& outputs, const PredictionRowOptions& options,
                const PredictedInput& predicted, const std::string& mask) {
  const std::span<const double> values = predicted.values;
  const auto add_numbers = [&] {
    for (const double value : values) add_cell(line, number_cell(value));
  };
  switch (outputs.kind) {
    case PredictedKind::classes:
      for (const std::size_t i : likeliest(values, num_told(outputs, options))) {
        add_cell(line, outputs.names[i]);
        add_cell(line, number_cell(values[i]));
      }
      if (options.top == 0) add_numbers();
      break;
    case PredictedKind::labels: {
      std::string labels;
      for (const std::string& label : labels_of(outputs, values)) labels += (labels.empty() ? "" : "|") + label;
      add_cell(line, labels);
      add_numbers();
      break;
    }
    case PredictedKind::numbers:
      add_numbers();
      break;
    case PredictedKind::class_map:
      add_cell(line, mask);
      break;
    case PredictedKind::next_token: {
      const TextPrediction& text = predicted.text;
      add_cell(line, fmt::format("{}", text.num_tokens));
      add_cell(line, text.has_loss() ? number_cell(text.loss) : "");
      add_cell(line, text.has_loss() ? number_cell(std::exp(text.loss)) : "");
      for (const std::size_t i : likeliest(values, num_told(outputs, options))) {
        add_cell(line, token_cell(outputs, i));
        add_cell(line, number_cell(values[i]));
      }
      break;
    }
  }
}

/// In f32, as CSV has them.
RowJson number_json(double value) {
  const bool is_told = std::isfinite(static_cast<float>(value));
  return is_told ? RowJson::parse(number_cell(value)) : RowJson(nullptr);
}

RowJson numbers_json(const PredictionOutputs& outputs, std::span<const double> values) {
  if (values.empty()) return nullptr;
  RowJson json = RowJson::object();
  for (std::size_t i = 0; i < values.size(); ++i) json[outputs.names[i]] = number_json(values[i]);
  return json;
}

}  // namespace

std::string prediction_csv_header(const PredictionOutputs& outputs, const PredictionRowOptions& options) {
  std::string line;
  for (const std::string& column : columns_of(outputs, options)) add_cell(line, column);
  return line + '\n';
}

std::string prediction_csv_row(const PredictionOutputs& outputs, const PredictionRowOptions& options,
                               const PredictedInput& predicted, const std::string& mask) {
  std::string line = csv_cell(predicted.input.name);
  if (predicted.input.error.empty()) {
    add_values(line, outputs, options, predicted, mask);
    return line + ",\n";
  }
  // Behind as many empty cells as there would be values.
  line.append(columns_of(outputs, options).size() - 1, ',');
  return line + csv_cell(predicted.input.error) + '\n';
}

std::string prediction_json_row(const PredictionOutputs& outputs, const PredictionRowOptions& options,
                                const PredictedInput& predicted, const std::string& mask) {
  RowJson json{{"event", "prediction"}, {"input", predicted.input.name}};
  const std::span<const double> values = predicted.values;
  const bool is_there = predicted.input.error.empty();
  switch (outputs.kind) {
    case PredictedKind::classes: {
      const std::vector<std::size_t> best = likeliest(values, num_told(outputs, options));
      json["class"] = is_there ? RowJson(outputs.names[best.front()]) : RowJson(nullptr);
      json["probability"] = is_there ? number_json(values[best.front()]) : RowJson(nullptr);
      if (options.top == 0) {
        json["probabilities"] = numbers_json(outputs, values);
        break;
      }
      json["top"] = is_there ? RowJson::array() : RowJson(nullptr);
      for (const std::size_t i : best)
        json["top"].push_back({{"class", outputs.names[i]}, {"probability", number_json(values[i])}});
      break;
    }
    case PredictedKind::labels:
      json["labels"] = is_there ? RowJson(labels_of(outputs, values)) : RowJson(nullptr);
      json["probabilities"] = numbers_json(outputs, values);
      break;
    case PredictedKind::numbers:
      json["numbers"] = numbers_json(outputs, values);
      break;
    case PredictedKind::class_map:
      json["mask"] = is_there ? RowJson(mask) : RowJson(nullptr);
      break;
    case PredictedKind::next_token: {
      const TextPrediction& text = predicted.text;
      const bool has_loss = is_there && text.has_loss();
      json["tokens"] = is_there ? RowJson(text.num_tokens) : RowJson(nullptr);
      json["loss"] = has_loss ? number_json(text.loss) : RowJson(nullptr);
      json["perplexity"] = has_loss ? number_json(std::exp(text.loss)) : RowJson(nullptr);
      json["next"] = is_there ? RowJson::array() : RowJson(nullptr);
      if (!is_there) break;
      for (const std::size_t i : likeliest(values, num_told(outputs, options)))
        json["next"].push_back({{"token", i},
                                {"text", outputs.names.empty() ? RowJson(nullptr) : RowJson(outputs.names[i])},
                                {"probability", number_json(values[i])}});
      break;
    }
  }
  json["error"] = is_there ? RowJson(nullptr) : RowJson(predicted.input.error);
  return json_text(json) + '\n';
}

}  // namespace trainer
