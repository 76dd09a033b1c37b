#include "engine/report/run/metrics_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

constexpr std::int64_t most_shown_classes = 10;
constexpr std::size_t most_shown_mistakes = 10;

std::string share_text(double share) { return std::isnan(share) ? "-" : fmt::format("{:.2f} %", 100 * share); }

std::string whole_table(const CountedMetrics& counted, std::int64_t classes, const Style& style) {
  std::vector<TextTable::Column> columns = {{"true \\ guessed"}};
  for (std::int64_t c = 0; c < classes; ++c) columns.push_back({fmt::format("{}", c)});
  columns.push_back({"IoU"});
  TextTable table(std::move(columns));
  for (std::int64_t truth = 0; truth < classes; ++truth) {
    std::vector<std::string> cells = {fmt::format("{}", truth)};
    for (std::int64_t guess = 0; guess < classes; ++guess)
      cells.push_back(format_count(counted.confusion[static_cast<std::size_t>(truth * classes + guess)]));
    cells.push_back(share_text(counted.class_iou[static_cast<std::size_t>(truth)]));
    table.add_row(std::move(cells));
  }
  return table.render(style);
}

struct Mistake {
  std::int64_t truth = 0, guess = 0, count = 0;
};

std::string most_mistakes(const CountedMetrics& counted, std::int64_t classes, const Style& style,
                          const std::string& whole) {
  // The largest, of equal ones the first; a list of all would be three times the matrix.
  std::vector<Mistake> mistakes;
  std::int64_t num_mistakes = 0;
  for (std::int64_t truth = 0; truth < classes; ++truth) {
    for (std::int64_t guess = 0; guess < classes; ++guess) {
      const std::int64_t count = counted.confusion[static_cast<std::size_t>(truth * classes + guess)];
      if (truth == guess || count == 0) continue;
      ++num_mistakes;
      const auto at =
          std::find_if(mistakes.begin(), mistakes.end(), [&](const Mistake& other) { return other.count < count; });
      mistakes.insert(at, {truth, guess, count});
      if (mistakes.size() > most_shown_mistakes) mistakes.pop_back();
    }
  }
  TextTable table({{"class"}, {"taken for"}, {"times"}, {"IoU of the class"}});
  for (const Mistake& mistake : mistakes)
    table.add_row({fmt::format("{}", mistake.truth), fmt::format("{}", mistake.guess), format_count(mistake.count),
                   share_text(counted.class_iou[static_cast<std::size_t>(mistake.truth)])});
  const auto num_shown = static_cast<std::int64_t>(mistakes.size());
  std::string text = num_shown > 0 ? table.render(style) : "  no class was taken for another one\n";
  if (num_shown < num_mistakes)
    text += fmt::format("  {} more kinds of mistake{}\n", format_count(num_mistakes - num_shown),
                        counted.class_iou.size() <= most_told_classes ? fmt::format("; all are in {}", whole) : "");
  return text;
}

}  // namespace

std::string metric_text(Metric metric, double value) {
  switch (metric) {
    case Metric::loss:
      return fmt::format("loss {:.4f}", value);
    case Metric::accuracy:
      return "accuracy " + share_text(value);
    case Metric::top5:
      return "top-5 " + share_text(value);
    case Metric::mean_iou:
      return "mean IoU " + share_text(value);
    case Metric::dice:
      return "dice " + share_text(value);
    case Metric::mae:
      return fmt::format("MAE {:.4g}", value);
    case Metric::r2:
      return fmt::format("R² {:.4f}", value);
  }
  return "";
}

std::string metrics_text(const std::optional<double>& accuracy, const std::optional<double>& top5,
                         const CountedMetrics& counted) {
  std::vector<std::string> texts;
  for (const auto& [metric, value] : {std::pair{Metric::accuracy, accuracy},
                                      {Metric::top5, top5},
                                      {Metric::mean_iou, counted.mean_iou},
                                      {Metric::dice, counted.dice},
                                      {Metric::mae, counted.mae},
                                      {Metric::r2, counted.r2}})
    if (value) texts.push_back(metric_text(metric, *value));
  if (counted.perplexity) texts.push_back(fmt::format("perplexity {:.4g}", *counted.perplexity));
  if (counted.bits_per_byte) texts.push_back(fmt::format("{:.4g} bits a byte", *counted.bits_per_byte));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string terms_text(const LossTerms& terms) {
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(terms.count));
  for (int term = 0; term < terms.count; ++term)
    texts.push_back(fmt::format("{:.4f}", terms.values[static_cast<std::size_t>(term)]));
  return fmt::format("{}", fmt::join(texts, " + "));
}

std::string confusion_text(const CountedMetrics& counted, const Style& style, const std::string& whole) {
  const auto classes = static_cast<std::int64_t>(counted.class_iou.size());
  if (counted.confusion.empty()) return "";
  return classes <= most_shown_classes ? whole_table(counted, classes, style)
                                       : most_mistakes(counted, classes, style, whole);
}

}  // namespace trainer
