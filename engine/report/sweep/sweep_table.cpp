#include "engine/report/sweep/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "engine/bytes.h"

namespace trainer {
namespace {

constexpr std::size_t column_gap = 2;
constexpr std::size_t widest_value = 24;
/// Those that a choice of settings changes most; the others are in sweep.csv.
constexpr std::array<Category, 4> shown_categories = {Category::parameter, Category::gradient,
                                                      Category::optimizer_state, Category::activation};

std::string bytes_or_dash(const std::optional<std::int64_t>& num_bytes) {
  return num_bytes ? format_bytes(*num_bytes) : "-";
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + '"';
}

template <class T>
std::string csv_number(const std::optional<T>& number) {
  return number ? fmt::format("{}", *number) : "";
}

Ink status_ink(PointStatus status) {
  if (lacks_memory(status)) return Ink::yellow;
  return status == PointStatus::done || status == PointStatus::fits ? Ink::green : Ink::red;
}

}  // namespace

SweepTable::SweepTable(const std::vector<SweptKey>& keys, bool plan_only, const Style& style) : style_(style) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::size_t width = display_width(keys[i].label);
    for (const std::string& value : keys[i].values) width = std::max(width, display_width(value));
    const std::size_t most = std::max(widest_value, keys[i].label.size());
    columns_.push_back({.what = What::value, .title = keys[i].label, .width = std::min(width, most), .key = i});
  }
  const auto add = [&](What what, const char* title, std::size_t width) {
    columns_.push_back({.what = what, .title = title, .width = width});
  };
  add(What::status, "status",
      plan_only ? name_of(PointStatus::does_not_fit).size() : name_of(PointStatus::diverged).size());
  add(What::allocated, "allocated", 11);
  add(What::reserved, "reserved", 11);
  for (const Category category : shown_categories) {
    const std::string title(name_of(category));
    columns_.push_back({.what = What::category,
                        .title = title,
                        .width = std::max<std::size_t>(title.size(), 11),
                        .category = category});
  }
  if (!plan_only) add(What::used, "used", 11);
  if (plan_only) add(What::step, "step time", 10);
  add(What::speed, "samples/s", 10);
  if (!plan_only) add(What::loss, "loss", 7);
  if (!plan_only) add(What::accuracy, "accuracy", 8);
  if (!plan_only) add(What::seconds, "seconds", 7);
  add(What::kept, "", 4);
  const auto total = [&] {
    std::size_t width = 0;
    for (const Column& column : columns_) width += column.width + column_gap;
    return width - column_gap;
  };
  for (const What least : {What::category, What::seconds, What::used, What::accuracy, What::loss}) {
    if (total() <= static_cast<std::size_t>(style.width)) break;
    std::erase_if(columns_, [&](const Column& column) {
      if (column.what != least) return false;
      left_out_ += (left_out_.empty() ? "" : ", ") + column.title;
      return true;
    });
  }
}

void SweepTable::count_tokens() {
  for (Column& column : columns_)
    if (column.what == What::speed) column.title = "tokens/s";
  counts_tokens_ = true;
}

std::string SweepTable::cell(const Column& column, const SweepRow& row, bool kept) const {
  switch (column.what) {
    case What::value:
      return cut_to_width(row.values[column.key], column.width);
    case What::status:
      return std::string(name_of(row.status));
    case What::allocated:
      return bytes_or_dash(row.peak_allocated);
    case What::reserved:
      return bytes_or_dash(row.peak_reserved);
    case What::category:
      if (!row.by_category) return "-";
      return format_bytes((*row.by_category)[static_cast<std::size_t>(column.category)]);
    case What::used:
      return bytes_or_dash(row.peak_used);
    case What::speed:
      if (const auto& rate = counts_tokens_ ? row.tokens_per_second : row.samples_per_second; rate)
        return fmt::format("{:.1f}", *rate);
      return "-";
    case What::step:
      if (!row.step_seconds) return "-";
      return *row.step_seconds < 1 ? fmt::format("{:.4g} ms", 1000 * *row.step_seconds)
                                   : fmt::format("{:.4g} s", *row.step_seconds);
    case What::loss: {
      const std::optional<double> loss = row.loss ? row.loss : row.train_loss;
      return loss ? fmt::format("{:.4g}", *loss) : "-";
    }
    case What::accuracy:
      return row.accuracy ? fmt::format("{:.2f} %", 100 * *row.accuracy) : "-";
    case What::seconds:
      return fmt::format("{:.1f}", row.seconds);
    case What::kept:
      return kept ? "kept" : "";
  }
  return "";
}

std::string SweepTable::titles() const {
  std::string line;
  for (const Column& column : columns_) {
    const bool is_left = column.what == What::status || column.what == What::kept;
    line += is_left ? pad_right(column.title, column.width) : pad_left(column.title, column.width);
    line.append(column_gap, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return paint(style_, Ink::bold, line);
}

std::string SweepTable::line(const SweepRow& row, bool kept) const {
  std::string line;
  for (const Column& column : columns_) {
    const std::string text = cell(column, row, kept);
    const std::string spaces(column.width - std::min(column.width, display_width(text)), ' ');
    if (column.what == What::status)
      line += paint(style_, status_ink(row.status), text) + spaces;
    else if (column.what == What::kept)
      line += paint(style_, Ink::dim, text);
    else
      line += spaces + text;
    line.append(column_gap, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string sweep_csv(const std::vector<std::string>& keys, const std::vector<SweepRow>& rows) {
  std::string text = "point";
  for (const std::string& key : keys) text += ',' + csv_field(key);
  text +=
      ",status,exit_code,signal,capacity,peak_requested,peak_allocated,peak_reserved,peak_used,samples_per_second,"
      "step_seconds,loss,accuracy,train_loss,steps,seconds,error";
  for (const std::string_view category : category_names) text += fmt::format(",{}", category);
  text += ",batch_size,tokens_per_second\n";
  for (const SweepRow& row : rows) {
    text += csv_field(row.point);
    for (const std::string& value : row.values) text += ',' + csv_field(value);
    text +=
        fmt::format(",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", name_of(row.status), row.exit_code, row.signal,
                    csv_number(row.capacity), csv_number(row.peak_requested), csv_number(row.peak_allocated),
                    csv_number(row.peak_reserved), csv_number(row.peak_used), csv_number(row.samples_per_second),
                    csv_number(row.step_seconds), csv_number(row.loss), csv_number(row.accuracy),
                    csv_number(row.train_loss), row.steps, row.seconds, csv_field(row.error));
    for (std::size_t i = 0; i < category_names.size(); ++i)
      text += ',' + csv_number(row.by_category ? std::optional((*row.by_category)[i]) : std::nullopt);
    text += ',' + csv_number(row.batch_size) + ',' + csv_number(row.tokens_per_second) + '\n';
  }
  return text;
}

std::vector<SweepRow> sorted_rows(std::vector<SweepRow> rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const SweepRow& a, const SweepRow& b) {
    return std::lexicographical_compare(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                                        value_is_less);
  });
  return rows;
}

}  // namespace trainer
