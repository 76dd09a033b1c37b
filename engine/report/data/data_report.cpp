#include "engine/report/data/data_report.h"
#include "engine/report/memory/memory_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/config/text/json_output.h"
#include "engine/config/text/utf8_text.h"
#include "engine/report/run/preprocessing_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

constexpr std::size_t most_classes_told = 20;

std::string line(const Style& style, std::string_view name, const std::string& value) {
  constexpr std::size_t name_columns = 12;
  return "  " + paint(style, Ink::cyan, pad_right(name, name_columns)) +
         wrap(value, static_cast<std::size_t>(style.width) - name_columns - 2, std::string(name_columns + 2, ' ')) +
         '\n';
}

std::string class_name(const LoadedData& data, std::size_t label) {
  const std::vector<std::string>& names = data.preprocessing.classes;
  constexpr std::size_t longest = 40;
  return label < names.size() ? shortened(names[label], longest) : fmt::format("{}", label);
}

bool holds_tokens_of_texts(const DataReport& report) {
  return report.data.description.inputs.front().type.dtype == DType::i32;
}

/// What the counts are of.
const char* counted_text(const DataReport& report) {
  if (!report.survey.counts_pixels) return "training samples";
  return holds_tokens_of_texts(report) ? "tokens" : "pixels";
}

std::string target_text(const DataReport& report) {
  const DataDescription& data = report.data.description;
  const std::string outputs = format_count(data.num_outputs);
  if (data.categorical())
    return data.target.shape.rank() == 0
               ? fmt::format("one of {} classes", outputs)
               : fmt::format("one of {} classes for each of {}", outputs, data.target.shape.to_string());
  if (report.config.target_type == TaskTarget::multi_label) return fmt::format("any of {} labels", outputs);
  return data.target.shape.num_elements() == 1 ? "a number" : fmt::format("{} numbers", data.target.shape.to_string());
}

std::string class_table(const DataReport& report, const Style& style) {
  const DataSurvey& survey = report.survey;
  const bool has_validation = !survey.validation_counts.empty();
  TextTable table({{"class", Align::left, Narrow::gives_way},
                   {survey.counts_pixels ? counted_text(report) : "training"},
                   {"share"},
                   {has_validation ? "validation" : ""}});
  double sum = 0;
  for (const std::int64_t count : survey.train_counts) sum += static_cast<double>(count);
  const std::size_t count = survey.train_counts.size();
  for (std::size_t i = 0; i < std::min(count, most_classes_told); ++i)
    table.add_row({class_name(report.data, i), format_count(survey.train_counts[i]),
                   sum > 0 ? fmt::format("{:.1f} %", 100 * static_cast<double>(survey.train_counts[i]) / sum) : "-",
                   has_validation ? format_count(survey.validation_counts[i]) : ""});
  std::string text = '\n' + table.render(style);
  if (count > most_classes_told) text += fmt::format("  and {} classes more\n", count - most_classes_told);
  return text;
}

/// What the counts of classes mean for training; empty where nothing does.
std::string imbalance_text(const DataReport& report) {
  const std::vector<std::int64_t>& counts = report.survey.train_counts;
  if (counts.size() < 2 || holds_tokens_of_texts(report)) return "";  // a vocabulary is never even
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  const auto name_of = [&](auto each) {
    return class_name(report.data, static_cast<std::size_t>(each - counts.begin()));
  };
  const char* const what = counted_text(report);
  if (*least == 0) return fmt::format("no {} of '{}'", what, name_of(least));
  constexpr std::int64_t told_from = 10;
  if (*most / *least < told_from) return "";
  return fmt::format("'{}' has {} times as many {} as '{}': loss.class_weights can even that out", name_of(most),
                     format_count(*most / *least), what, name_of(least));
}

std::string list_of(const std::vector<NumberFacts>& facts, double NumberFacts::*member) {
  std::vector<std::string> numbers;
  numbers.reserve(facts.size());
  for (const NumberFacts& each : facts) numbers.push_back(fmt::format("{:.4g}", each.*member));
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

std::string range_text(const NumberFacts& facts) {
  return fmt::format("{:.5g} to {:.5g}, mean {:.5g}, standard deviation {:.5g}", facts.least, facts.most, facts.mean,
                     facts.std);
}

/// Keys that give pixels a mean of 0 and a deviation of 1.
std::string normalize_text(const DataReport& report, const Style& style) {
  const std::vector<NumberFacts>& channels = report.survey.channels;
  const bool has_constant =
      std::any_of(channels.begin(), channels.end(), [](const auto& each) { return each.std <= 0; });
  if (has_constant) return line(style, "pixels", "a channel is the same everywhere: there is nothing to normalise by");
  const std::string keys = fmt::format("normalize: {{mean: {}, std: {}}}", list_of(channels, &NumberFacts::mean),
                                       list_of(channels, &NumberFacts::std));
  const InputDescription& input = report.data.description.inputs.front();
  std::string text = line(style, "normalise",
                          fmt::format("by what {} hold as the first epoch prepares them, under data:",
                                      format_number_of(report.survey.num_surveyed, "training sample")));
  text += fmt::format("      {}\n", keys);
  if (!report.config.mean.empty())
    text += line(style, "now",
                 fmt::format("mean {:.4g}, std {:.4g}", fmt::join(input.mean, ", "), fmt::join(input.std, ", ")));
  return text;
}

/// Whose samples were written, and as what.
std::string prepared_text(const DataReport& report, std::int64_t count) {
  if (report.of_validation)
    return fmt::format("{} as each evaluation prepares them", format_number_of(count, "validation sample"));
  return fmt::format("{} as {} prepares them", format_number_of(count, "training sample"),
                     report.epoch == 1 ? "the first epoch" : fmt::format("epoch {}", format_count(report.epoch)));
}

std::string arrays_text(const std::vector<NamedArray>& arrays) {
  std::vector<std::string> told;
  told.reserve(arrays.size());
  for (const NamedArray& array : arrays)
    told.push_back(fmt::format("{} {} {}", array.name, name_of(array.type.dtype), array.type.shape.to_string()));
  return fmt::format("{}", fmt::join(told, ", "));
}

nlohmann::ordered_json facts_json(const NumberFacts& facts) {
  return {{"min", facts.least}, {"max", facts.most}, {"mean", facts.mean}, {"std", facts.std}};
}

}  // namespace

std::string data_report(const DataReport& report, const Style& style) {
  const DataDescription& data = report.data.description;
  const DataSurvey& survey = report.survey;
  const InputDescription& input = data.inputs.front();
  std::string text = line(style, "training",
                          fmt::format("{}, each {} {}", format_number_of(data.num_train, "sample"),
                                      name_of(input.type.dtype), input.type.shape.to_string()));
  text += line(style, "validation", data.num_validation > 0 ? format_number_of(data.num_validation, "sample") : "none");
  text += line(style, "target", target_text(report));
  if (!survey.train_counts.empty()) text += class_table(report, style) + '\n';
  if (survey.num_left_out > 0)
    text += line(style, "left out",
                 fmt::format("{} that the loss ignores", format_number_of(survey.num_left_out, "target")));
  if (const std::string imbalance = imbalance_text(report); !imbalance.empty()) text += line(style, "note", imbalance);
  constexpr std::size_t most_targets = 8;
  for (std::size_t i = 0; i < std::min(survey.targets.size(), most_targets); ++i) {
    const std::vector<std::string>& names = report.config.target_type == TaskTarget::multi_label
                                                ? report.data.preprocessing.classes
                                                : report.data.preprocessing.targets;
    text += line(style, i < names.size() ? shortened(names[i], 11) : fmt::format("target {}", i),
                 range_text(survey.targets[i]));
  }
  if (survey.targets.size() > most_targets)
    text += fmt::format("  and {} more targets\n", survey.targets.size() - most_targets);
  if (!survey.channels.empty())
    text += normalize_text(report, style);
  else if (!holds_tokens_of_texts(report))
    text += line(style, "numbers",
                 range_text(survey.numbers) + fmt::format(", of {}", format_number_of(survey.num_surveyed, "sample")));
  if (const std::string told =
          report.data.preprocessing.features.empty() ? std::string() : preprocessing_text(report.data.preprocessing);
      !told.empty())
    text += wrap_lines(told, static_cast<std::size_t>(style.width)) + '\n';
  for (const std::string& remark : report.data.remarks) text += line(style, "note", remark);
  if (!report.sheet.empty())
    text += line(style, "pictures", fmt::format("{}: {}", report.sheet, prepared_text(report, report.num_shown)));
  if (!report.npz.empty()) {
    const std::int64_t num_written = report.arrays.front().type.shape[0];
    text += line(style, "arrays",
                 fmt::format("{}: {}: {}", report.npz, prepared_text(report, num_written), arrays_text(report.arrays)));
  }
  return text;
}

std::string data_json(const DataReport& report) {
  const DataDescription& data = report.data.description;
  const DataSurvey& survey = report.survey;
  const InputDescription& input = data.inputs.front();
  const auto dims = [](const Shape& shape) { return std::vector<std::int64_t>(shape.begin(), shape.end()); };
  nlohmann::ordered_json json = {{"event", "data"},
                                 {"schema", event_schema_version},
                                 {"train_samples", data.num_train},
                                 {"validation_samples", data.num_validation},
                                 {"shape", dims(input.type.shape)},
                                 {"dtype", name_of(input.type.dtype)},
                                 {"target_shape", dims(data.target.shape)},
                                 {"target_dtype", name_of(data.target.dtype)},
                                 {"outputs", data.num_outputs},
                                 {"surveyed", survey.num_surveyed}};
  if (!survey.train_counts.empty()) {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < survey.train_counts.size(); ++i) {
      nlohmann::ordered_json each = {
          {"name",
           i < report.data.preprocessing.classes.size() ? report.data.preprocessing.classes[i] : fmt::format("{}", i)},
          {survey.counts_pixels ? counted_text(report) : "train", survey.train_counts[i]}};
      if (!survey.validation_counts.empty()) each["validation"] = survey.validation_counts[i];
      classes.push_back(std::move(each));
    }
    json["classes"] = std::move(classes);
    json["left_out"] = survey.num_left_out;
  }
  const auto list = [](const std::vector<NumberFacts>& facts) {
    nlohmann::ordered_json items = nlohmann::ordered_json::array();
    for (const NumberFacts& each : facts) items.push_back(facts_json(each));
    return items;
  };
  if (!survey.channels.empty())
    json["channels"] = list(survey.channels);
  else if (!holds_tokens_of_texts(report))
    json["numbers"] = facts_json(survey.numbers);
  if (!survey.targets.empty()) json["targets"] = list(survey.targets);
  json["remarks"] = report.data.remarks;
  json["sheet"] = report.sheet.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(report.sheet);
  json["npz"] = report.npz.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(report.npz);
  return json_text(json);
}

}  // namespace trainer
