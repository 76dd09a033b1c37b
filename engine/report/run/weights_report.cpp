#include "engine/report/run/weights_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "engine/config/text/utf8_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

constexpr std::array all_statuses = {WeightsStatus::loaded, WeightsStatus::fresh, WeightsStatus::ignored,
                                     WeightsStatus::mismatched};

/// Loaded as one would think: under its name, as it is.
bool is_plain_row(const WeightsRow& row) {
  const bool same_name = row.file_name == row.name;
  return row.status == WeightsStatus::loaded && same_name && !row.is_transposed && row.file_dtype == "f32";
}

Ink ink_of(WeightsStatus status) {
  switch (status) {
    case WeightsStatus::loaded:
      return Ink::green;
    case WeightsStatus::fresh:
      return Ink::yellow;
    case WeightsStatus::ignored:
      return Ink::dim;
    case WeightsStatus::mismatched:
      return Ink::red;
  }
  return Ink::dim;
}

/// What the file has, where that is not what the columns before it say.
std::string file_text(const WeightsRow& row) {
  if (!row.file_shape) return "";
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  if (row.file_name != row.name) add(shortened(row.file_name, 200));
  if (row.is_transposed || !row.shape || !(*row.shape == *row.file_shape)) add(row.file_shape->to_string());
  if (row.file_dtype != "f32") add(row.file_dtype);
  if (row.is_transposed && row.status == WeightsStatus::loaded) add("transposed");
  return text;
}

nlohmann::ordered_json shape_json(const std::optional<Shape>& shape) {
  if (!shape) return nullptr;
  return std::vector<std::int64_t>(shape->begin(), shape->end());
}

}  // namespace

std::string weights_line(const WeightsMatch& match) {
  std::string text;
  for (const WeightsStatus status : all_statuses) {
    const std::int64_t count = match.count(status);
    if (count == 0) continue;
    text += text.empty() ? fmt::format("{} {}", format_number_of(count, "tensor"), name_of(status))
                         : fmt::format(", {} {}", format_count(count), name_of(status));
  }
  return fmt::format("{}: {}", match.path, text.empty() ? "no tensors" : text);
}

std::string weights_table(const WeightsMatch& match, bool whole, const Style& style, int indent) {
  constexpr std::size_t most_rows = 24, most_plain = 4;
  const bool shows_all = whole || match.rows.size() <= most_rows;
  TextTable table({{"tensor", Align::left, Narrow::gives_way},
                   {"shape", Align::left},
                   {"", Align::left},
                   {"in the file", Align::left, Narrow::is_left_out}});
  std::array<std::int64_t, all_statuses.size()> num_left_out{};
  std::size_t num_plain = 0, num_counters = 0, num_others = 0;
  std::vector<const WeightsRow*> rows;
  for (const WeightsRow& row : match.rows) rows.push_back(&row);
  std::stable_partition(rows.begin(), rows.end(),
                        [](const WeightsRow* row) { return row->status == WeightsStatus::mismatched; });
  for (const WeightsRow* each : rows) {
    const WeightsRow& row = *each;
    const bool is_counter = row.status == WeightsStatus::ignored && !row.note.empty() && !row.shape;
    std::size_t& num_of_kind = is_plain_row(row) ? num_plain : is_counter ? num_counters : num_others;
    if (++num_of_kind > (&num_of_kind == &num_others ? most_rows : most_plain) && !shows_all) {
      ++num_left_out[static_cast<std::size_t>(row.status)];
      continue;
    }
    const bool tells_why = row.status == WeightsStatus::ignored && !row.note.empty();
    std::string status(name_of(row.status));
    if (tells_why) status += fmt::format(" ({})", row.note);
    table.add_row({shortened(row.name, 200), row.shape ? row.shape->to_string() : "",
                   paint(style, ink_of(row.status), status), file_text(row)});
  }
  std::string text = table.render(style, indent);
  std::string others;
  for (const WeightsStatus status : all_statuses) {
    const std::int64_t count = num_left_out[static_cast<std::size_t>(status)];
    if (count > 0) others += fmt::format("{}{} {}", others.empty() ? "" : ", ", format_count(count), name_of(status));
  }
  if (!others.empty())
    text += fmt::format("{:{}}… and {} more; --full lists them\n", "", static_cast<std::size_t>(indent), others);
  return text;
}

std::string frozen_text(const std::vector<WeightsMatch>& frozen, bool whole, const Style& style) {
  std::string text;
  for (const WeightsMatch& match : frozen)
    text += wrap(fmt::format("frozen {} from {}", match.network, weights_line(match)),
                 static_cast<std::size_t>(style.width)) +
            '\n' + weights_table(match, whole, style);
  return text;
}

nlohmann::ordered_json frozen_json(const std::vector<WeightsMatch>& frozen) {
  nlohmann::ordered_json networks = nlohmann::ordered_json::array();
  for (const WeightsMatch& match : frozen)
    networks.push_back({{"network", match.network}, {"weights", weights_json(match)}});
  return networks;
}

nlohmann::ordered_json weights_json(const WeightsMatch& match) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const WeightsRow& row : match.rows) {
    tensors.push_back({{"name", row.name},
                       {"status", name_of(row.status)},
                       {"shape", shape_json(row.shape)},
                       {"file_name", row.file_shape ? nlohmann::ordered_json(row.file_name) : nullptr},
                       {"file_shape", shape_json(row.file_shape)},
                       {"file_dtype", row.file_shape ? nlohmann::ordered_json(row.file_dtype) : nullptr},
                       {"transposed", row.is_transposed},
                       {"note", row.note}});
  }
  nlohmann::ordered_json json = {{"file", match.path}, {"files", match.files}};
  for (const WeightsStatus status : all_statuses) json[std::string(name_of(status))] = match.count(status);
  json["tensors"] = std::move(tensors);
  return json;
}

}  // namespace trainer
