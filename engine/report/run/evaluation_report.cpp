#include "engine/report/run/evaluation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/memory/memory_table.h"
#include "engine/report/memory/out_of_memory_report.h"
#include "engine/report/memory/process_report.h"
#include "engine/report/run/metrics_text.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

constexpr std::size_t most_listed_classes = 40, most_shown_worst_classes = 20;
constexpr std::size_t longest_class_name = 24;

std::string class_score_text(const std::optional<double>& score) {
  return score ? fmt::format("{:.2f} %", 100 * *score) : "-";
}

std::string name_of_class(const EvaluationFindings& findings, std::size_t number) {
  return number < findings.class_names.size() ? findings.class_names[number] : fmt::format("{}", number);
}

/// Every class; of very many those of the lowest F1.
std::string scores_table(const EvaluationFindings& findings, const Style& style) {
  const std::vector<ClassScores> scores = class_scores(findings.run.evaluation.counted);
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::string remark;
  if (order.size() > most_listed_classes) {
    std::erase_if(order, [&](std::size_t c) { return scores[c].num_true == 0; });
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a].f1.value_or(0) < scores[b].f1.value_or(0); });
    if (order.size() > most_shown_worst_classes) order.resize(most_shown_worst_classes);
    remark = fmt::format("  Of {} classes the {} of the lowest F1.\n",
                         format_count(static_cast<std::int64_t>(scores.size())), order.size());
  }
  TextTable table({{"class", Align::left, Narrow::gives_way}, {"samples"}, {"precision"}, {"recall"}, {"F1"}});
  for (const std::size_t c : order)
    table.add_row({cut_to_width(name_of_class(findings, c), longest_class_name), format_count(scores[c].num_true),
                   class_score_text(scores[c].precision), class_score_text(scores[c].recall),
                   class_score_text(scores[c].f1)});
  return table.render(style) + remark;
}

std::string worst_table(const EvaluationFindings& findings, const Style& style) {
  const std::vector<SampleLoss>& worst = findings.run.worst;
  const bool has_names = std::any_of(findings.worst.begin(), findings.worst.end(),
                                     [](const auto& sample) { return !sample.name.empty(); });
  std::vector<TextTable::Column> columns = {{"sample"}, {"loss"}};
  if (worst.front().target)
    columns.insert(columns.end(), {{"true", Align::left}, {"predicted", Align::left}, {"with"}});
  if (worst.front().number) columns.insert(columns.end(), {{"true"}, {"predicted"}});
  if (has_names) columns.push_back({"file", Align::left, Narrow::gives_way});
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < worst.size(); ++i) {
    const SampleLoss& sample = worst[i];
    std::vector<std::string> cells = {fmt::format("{}", sample.index), fmt::format("{:.4f}", sample.loss)};
    if (sample.target) {
      const auto name = [&](std::int32_t number) {
        return number < 0 ? fmt::format("{}", number)
                          : cut_to_width(name_of_class(findings, static_cast<std::size_t>(number)), longest_class_name);
      };
      cells.push_back(name(*sample.target));
      cells.push_back(name(*sample.predicted));
      cells.push_back(class_score_text(sample.probability));
    }
    if (sample.number) {
      cells.push_back(fmt::format("{:.5g}", *sample.number));
      cells.push_back(fmt::format("{:.5g}", *sample.predicted_number));
    }
    if (has_names) cells.push_back(findings.worst[i].name);
    table.add_row(std::move(cells));
  }
  return table.render(style);
}

Json finite_or_null(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? Json(*number) : Json(nullptr);
}

/// The whole matrix where events tell such whole, else null.
Json confusion_json(const CountedMetrics& counted) {
  const std::size_t classes = counted.class_iou.size();
  if (counted.confusion.empty() || classes > most_told_classes) return nullptr;
  Json rows = Json::array();
  for (std::size_t truth = 0; truth < classes; ++truth)
    rows.push_back(std::vector<std::int64_t>(counted.confusion.begin() + truth * classes,
                                             counted.confusion.begin() + (truth + 1) * classes));
  return rows;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char letter : text) cell += letter == '"' ? "\"\"" : std::string(1, letter);
  return cell + '"';
}

double evaluation_rate(const EvalEvent& evaluation) {
  return evaluation.seconds > 0 ? static_cast<double>(evaluation.samples) / evaluation.seconds : 0;
}

}  // namespace

std::vector<ClassScores> class_scores(const CountedMetrics& counted) {
  const std::size_t classes = counted.class_iou.size();
  std::vector<ClassScores> scores(counted.confusion.empty() ? 0 : classes);
  for (std::size_t c = 0; c < scores.size(); ++c) {
    std::int64_t guessed = 0;
    for (std::size_t other = 0; other < classes; ++other) {
      scores[c].num_true += counted.confusion[c * classes + other];
      guessed += counted.confusion[other * classes + c];
    }
    const auto right = static_cast<double>(counted.confusion[c * classes + c]);
    const auto share = [&](double whole) { return whole > 0 ? std::optional<double>(right / whole) : std::nullopt; };
    scores[c].precision = share(static_cast<double>(guessed));
    scores[c].recall = share(static_cast<double>(scores[c].num_true));
    scores[c].f1 = share(static_cast<double>(guessed + scores[c].num_true) / 2);
  }
  return scores;
}

std::string evaluation_report(const EvaluationFindings& findings, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  const EvalEvent& evaluation = findings.run.evaluation;
  const auto paragraph = [&](const std::string& text) { return wrap(text, width) + '\n'; };
  std::string text =
      paint(style, Ink::bold,
            wrap(fmt::format("{} on {}: {} of validation data, in batches of {}", findings.experiment_name,
                             findings.device_name, format_number_of(evaluation.samples, "sample"),
                             format_count(findings.batch_size)),
                 width)) +
      '\n' + paragraph("Weights of " + findings.weights);
  const std::string metrics = metrics_text(evaluation.accuracy, evaluation.top5, evaluation.counted);
  std::string line = metric_text(Metric::loss, evaluation.loss);
  if (evaluation.terms.count > 0) line += fmt::format(" ({}, before their weights)", terms_text(evaluation.terms));
  if (!metrics.empty()) line += ", " + metrics;
  if (!findings.target_unit.empty()) line += fmt::format(", in {}", findings.target_unit);
  text += '\n' + paragraph(line);
  if (!evaluation.counted.confusion.empty()) {
    text += heading(style, "Classes") + scores_table(findings, style);
    text += heading(style, "Which class was taken for which") +
            confusion_text(evaluation.counted, style, "--confusion FILE.csv");
  }
  if (!findings.run.worst.empty())
    text +=
        heading(style, fmt::format("The {} of the highest loss",
                                   format_number_of(static_cast<std::int64_t>(findings.run.worst.size()), "sample"))) +
        worst_table(findings, style);
  text += '\n';
  for (const std::string& note : findings.notes)
    text += paint(style, Ink::yellow, wrap("Note: " + note + ".", width)) + '\n';
  return text +
         paragraph(fmt::format("{}, {} samples/s; reserved {} of {}, of which parameters {}.",
                               step_time_text(evaluation.seconds), samples_per_second_text(evaluation_rate(evaluation)),
                               format_bytes(findings.run.memory.peak_reserved), format_bytes(findings.capacity),
                               format_bytes(findings.parameter_bytes)));
}

std::string evaluation_out_of_memory(const EvaluationFindings& findings, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  const auto paragraph = [&](const std::string& text) { return wrap(text, width) + '\n'; };
  const OutOfMemoryContext& failure = *findings.plan.failure;
  const PlanPeak& peak = findings.unbounded->peak;
  std::string text = paragraph(out_of_memory_message(failure.failure, findings.device_kind));
  text += heading(style, fmt::format("Who would hold it at the peak: {}", peak.layer)) +
          category_table(peak.live.by_category, peak.allocated, style) + '\n' +
          layer_table(peak.live.by_layer, peak.allocated, style);
  if (const std::string process = process_memory_table(findings.process, findings.unbounded->peak_touched, style);
      !process.empty())
    text += heading(style, "What the process would hold") + process;
  text += '\n' +
          paint(style, Ink::red,
                wrap(fmt::format("Out of memory{}{}: {} for {}.", failure.layer.empty() ? "" : ", layer ",
                                 failure.layer, format_bytes(failure.failure.requested), failure.buffer),
                     width)) +
          '\n' +
          paragraph(fmt::format("An evaluation in batches of {} reserves {}; the capacity is {}.",
                                format_count(findings.batch_size), format_bytes(findings.unbounded->peak_reserved),
                                format_bytes(findings.capacity)));
  const std::int64_t batch = findings.batch_that_fits.value_or(0);
  if (batch == 0) return text + paragraph("Not even batches of one sample fit.");
  std::vector<std::string> words = {"eval", findings.config_path};
  const std::vector<std::string> merged =
      merged_overrides(findings.overrides, {fmt::format("train.eval_batch_size={}", batch)});
  words.insert(words.end(), merged.begin(), merged.end());
  words.insert(words.end(), findings.options.begin(), findings.options.end());
  return text + paragraph(fmt::format("Batches of {} fit, and give the same but for rounding:", format_count(batch))) +
         pasted_command(words, style);
}

std::string evaluation_json(const EvaluationFindings& findings) {
  const EvalEvent& evaluation = findings.run.evaluation;
  const CountedMetrics& counted = evaluation.counted;
  Json told = {{"event", "evaluation"},
               {"name", findings.experiment_name},
               {"weights", findings.weights},
               {"samples", evaluation.samples},
               {"batch_size", findings.batch_size},
               {"loss", finite_or_null(evaluation.loss)},
               {"accuracy", finite_or_null(evaluation.accuracy)},
               {"top5", finite_or_null(evaluation.top5)}};
  if (evaluation.terms.count > 0)
    told["losses"] =
        std::vector<double>(evaluation.terms.values.begin(), evaluation.terms.values.begin() + evaluation.terms.count);
  for (const auto& [key, value] : {std::pair{"mean_iou", counted.mean_iou},
                                   {"dice", counted.dice},
                                   {"mae", counted.mae},
                                   {"r2", counted.r2},
                                   {"perplexity", counted.perplexity},
                                   {"bits_per_byte", counted.bits_per_byte}})
    if (value) told[key] = finite_or_null(value);
  Json classes = Json::array();
  const std::vector<ClassScores> scores = class_scores(counted);
  for (std::size_t c = 0; c < scores.size(); ++c)
    classes.push_back({{"name", name_of_class(findings, c)},
                       {"samples", scores[c].num_true},
                       {"precision", finite_or_null(scores[c].precision)},
                       {"recall", finite_or_null(scores[c].recall)},
                       {"f1", finite_or_null(scores[c].f1)}});
  told["classes"] = std::move(classes);
  told["confusion"] = confusion_json(counted);
  Json worst = Json::array();
  for (std::size_t i = 0; i < findings.run.worst.size(); ++i) {
    const SampleLoss& sample = findings.run.worst[i];
    Json entry = {{"index", sample.index},
                  {"number", findings.worst[i].number},
                  {"file", findings.worst[i].name.empty() ? Json(nullptr) : Json(findings.worst[i].name)},
                  {"loss", finite_or_null(sample.loss)}};
    if (sample.target) {
      entry["target"] = *sample.target;
      entry["predicted"] = *sample.predicted;
      entry["probability"] = finite_or_null(sample.probability);
    }
    if (sample.number) {
      entry["target"] = finite_or_null(sample.number);
      entry["predicted"] = finite_or_null(sample.predicted_number);
    }
    worst.push_back(std::move(entry));
  }
  told["worst"] = std::move(worst);
  told["notes"] = findings.notes;
  told["seconds"] = evaluation.seconds;
  told["samples_per_second"] = evaluation_rate(evaluation);
  told["parameter_bytes"] = findings.parameter_bytes;
  told["memory"] = step_memory_of(findings.run.memory);
  return json_text(told);
}

std::string confusion_csv(const EvaluationFindings& findings) {
  const CountedMetrics& counted = findings.run.evaluation.counted;
  const std::size_t classes = counted.class_iou.size();
  std::string text = "true\\predicted";
  for (std::size_t c = 0; c < classes; ++c) text += ',' + csv_cell(name_of_class(findings, c));
  text += '\n';
  for (std::size_t truth = 0; truth < classes; ++truth) {
    text += csv_cell(name_of_class(findings, truth));
    for (std::size_t guess = 0; guess < classes; ++guess)
      text += fmt::format(",{}", counted.confusion[truth * classes + guess]);
    text += '\n';
  }
  return text;
}

}  // namespace trainer
