#include "engine/report/sweep/sweep_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "engine/config/text/json_input.h"
#include "engine/config/text/json_output.h"
#include "engine/errors.h"
#include "engine/report/memory/memory_json.h"

namespace trainer {
namespace {

using SweepJson = nlohmann::ordered_json;

/// Paths need not be UTF-8; the line must be.
template <class T>
SweepJson number_or_null(const std::optional<T>& number) {
  return number ? SweepJson(*number) : SweepJson(nullptr);
}

/// A number or truth value where JSON writes it as it was written, so that it reads back to the same text.
SweepJson json_of_value(const std::string& value) {
  const std::optional<SweepJson> json = parse_json<SweepJson>(value);
  const bool is_plain = json && (json->is_number() || json->is_boolean()) && json->dump() == value;
  return is_plain ? *json : SweepJson(value);
}

std::string value_of_json(const SweepJson& json) { return json.is_string() ? json.get<std::string>() : json.dump(); }

SweepJson json_of_values(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  SweepJson json = SweepJson::object();
  for (std::size_t i = 0; i < keys.size(); ++i) json[keys[i]] = json_of_value(values[i]);
  return json;
}

std::vector<std::string> row_values_of(const JsonInput<SweepJson>& json, const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) values.push_back(value_of_json(json.at(key).scalar()));
  return values;
}

template <class T>
std::optional<T> number_at(const SweepJson& json, const char* key) {
  const auto found = json.find(key);
  const bool holds = found != json.end() && (std::is_integral_v<T> ? found->is_number_integer() : found->is_number());
  if (!holds) return std::nullopt;
  const JsonInput<SweepJson> number(*found, key);
  if constexpr (std::is_integral_v<T>)
    return number.integer(std::numeric_limits<T>::min());
  else
    return number.number();
}

std::optional<CategoryBytes> categories_at(const SweepJson& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return std::nullopt;
  CategoryBytes by_category{};
  for (std::size_t i = 0; i < by_category.size(); ++i)
    by_category[i] = number_at<std::int64_t>(*found, std::string(category_names[i]).c_str()).value_or(0);
  return by_category;
}

SweepJson train_losses_json(const std::vector<CurvePoint>& points) {
  SweepJson json = SweepJson::array();
  for (const CurvePoint& point : points) json.push_back(SweepJson::array({point.step, point.value}));
  return json;
}

SweepJson evaluations_json(const std::vector<EvaluatedPoint>& points) {
  SweepJson json = SweepJson::array();
  for (const EvaluatedPoint& point : points)
    json.push_back(SweepJson::array({point.step, point.loss, number_or_null(point.accuracy)}));
  return json;
}

/// The lists of numbers under a key; rows that were written before there were any lack it.
std::vector<std::vector<JsonInput<SweepJson>>> lists_at(const JsonInput<SweepJson>& json, const char* key,
                                                        std::size_t length) {
  std::vector<std::vector<JsonInput<SweepJson>>> lists;
  const auto found = json.find(key);
  if (!found) return lists;
  for (const JsonInput<SweepJson>& item : found->items()) {
    lists.push_back(item.items());
    if (lists.back().size() != length) throw DataError(fmt::format("{} holds lists of {} numbers", key, length));
  }
  return lists;
}

SweepJson config_without_output(const std::string& config_json) {
  std::optional<SweepJson> config = parse_json<SweepJson>(config_json);
  if (!config) return nullptr;
  if (config->is_object()) config->erase("output");
  return *std::move(config);
}

/// What the results of points follow from.
SweepJson config_of_results(const std::string& config_json) {
  SweepJson config = config_without_output(config_json);
  if (config.is_object()) config.erase("logging");
  return config;
}

SweepHeader sweep_header_of(const JsonInput<SweepJson>& json) {
  SweepHeader header;
  header.version = json.at("version").text();
  header.plan_only = json.at("plan_only").boolean();
  header.gpu = json.at("gpu").text();
  header.capacity = json.at("capacity").text();
  if (const auto device = json.find("device")) header.device = device->text();
  if (const auto rates = json.find("rates")) header.rates = rates->text();
  for (const auto& key : json.at("keys").items()) header.keys.push_back(key.text());
  header.values = row_values_of(json.at("values"), header.keys);
  header.config_json = json.at("config").object().dump();
  return header;
}

SweepRow sweep_row_of(const JsonInput<SweepJson>& json, const std::vector<std::string>& keys) {
  constexpr std::int64_t largest_code = 255;
  SweepRow row;
  row.point = json.at("point").text();
  row.values = row_values_of(json.at("values"), keys);
  const std::optional<PointStatus> status = point_status_of(json.at("status").text());
  if (!status) throw DataError("an unknown status");
  row.status = *status;
  row.exit_code = static_cast<int>(json.at("exit_code").integer(-1, largest_code));
  row.signal = static_cast<int>(json.at("signal").integer(0, largest_code));
  const SweepJson& numbers = json.object();
  row.capacity = number_at<std::int64_t>(numbers, "capacity");
  row.batch_size = number_at<std::int64_t>(numbers, "batch_size");
  row.asked_batch_size = number_at<std::int64_t>(numbers, "asked_batch_size");
  row.peak_requested = number_at<std::int64_t>(numbers, "peak_requested");
  row.peak_allocated = number_at<std::int64_t>(numbers, "peak_allocated");
  row.peak_reserved = number_at<std::int64_t>(numbers, "peak_reserved");
  row.peak_used = number_at<std::int64_t>(numbers, "peak_used");
  row.by_category = categories_at(numbers, "by_category");
  row.samples_per_second = number_at<double>(numbers, "samples_per_second");
  row.tokens_per_second = number_at<double>(numbers, "tokens_per_second");
  row.step_seconds = number_at<double>(numbers, "step_seconds");
  row.loss = number_at<double>(numbers, "loss");
  row.accuracy = number_at<double>(numbers, "accuracy");
  row.train_loss = number_at<double>(numbers, "train_loss");
  for (const auto& point : lists_at(json, "train_losses", 2))
    row.train_losses.push_back({point[0].integer(), point[1].number()});
  for (const auto& point : lists_at(json, "evaluations", 3))
    row.evaluations.push_back(
        {point[0].integer(), point[1].number(), point[2].is_null() ? std::nullopt : std::optional(point[2].number())});
  row.steps = json.at("steps").integer();
  row.seconds = json.at("seconds").number(0);
  if (const auto error = json.find("error")) row.error = error->text();
  return row;
}

/// Differences of two JSON trees by dotted key; a list is one value.
void add_differences(const SweepJson& former, const SweepJson& now, const std::string& path,
                     std::vector<std::string>& found) {
  if (former == now) return;
  if (!former.is_object() || !now.is_object()) {
    constexpr std::size_t longest = 60;
    const auto text = [](const SweepJson& json) {
      std::string value = json_text(json);
      return value.size() <= longest ? value : value.substr(0, longest) + "…";
    };
    found.push_back(fmt::format("{} (was {}, is {})", path, text(former), text(now)));
    return;
  }
  const auto name = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  for (const auto& [key, value] : former.items())
    add_differences(value, now.contains(key) ? now[key] : SweepJson(nullptr), name(key), found);
  for (const auto& [key, value] : now.items())
    if (!former.contains(key)) add_differences(nullptr, value, name(key), found);
}

}  // namespace

bool is_of_tokens(const SweepHeader& header) {
  const std::optional<SweepJson> config = parse_json<SweepJson>(header.config_json);
  if (!config || !config->is_object()) return false;
  const auto data = config->find("data");
  if (data == config->end() || !data->is_object()) return false;
  const SweepJson type = data->value("type", SweepJson(nullptr));
  return type == "tokens" || type == "text";
}

std::string sweep_header_json(const SweepHeader& header) {
  return json_text({{"event", "sweep"},
                    {"schema", event_schema_version},
                    {"version", header.version},
                    {"plan_only", header.plan_only},
                    {"gpu", header.gpu},
                    {"capacity", header.capacity},
                    {"device", header.device},
                    {"rates", header.rates},
                    {"keys", header.keys},
                    {"values", json_of_values(header.keys, header.values)},
                    {"config", config_without_output(header.config_json)}});
}

std::string sweep_row_json(const std::vector<std::string>& keys, const SweepRow& row, bool kept) {
  SweepJson json = {{"event", "point"},
                    {"point", row.point},
                    {"values", json_of_values(keys, row.values)},
                    {"status", name_of(row.status)},
                    {"exit_code", row.exit_code},
                    {"signal", row.signal},
                    {"capacity", number_or_null(row.capacity)},
                    {"batch_size", number_or_null(row.batch_size)},
                    {"asked_batch_size", number_or_null(row.asked_batch_size)},
                    {"peak_requested", number_or_null(row.peak_requested)},
                    {"peak_allocated", number_or_null(row.peak_allocated)},
                    {"peak_reserved", number_or_null(row.peak_reserved)},
                    {"peak_used", number_or_null(row.peak_used)},
                    {"by_category", row.by_category ? by_category_of(*row.by_category) : SweepJson(nullptr)},
                    {"samples_per_second", number_or_null(row.samples_per_second)},
                    {"step_seconds", number_or_null(row.step_seconds)},
                    {"loss", number_or_null(row.loss)},
                    {"accuracy", number_or_null(row.accuracy)},
                    {"train_loss", number_or_null(row.train_loss)},
                    {"train_losses", train_losses_json(row.train_losses)},
                    {"evaluations", evaluations_json(row.evaluations)},
                    {"steps", row.steps},
                    {"seconds", row.seconds}};
  if (row.tokens_per_second) json["tokens_per_second"] = *row.tokens_per_second;
  if (!row.error.empty()) json["error"] = row.error;
  if (kept) json["kept"] = true;
  return json_text(json);
}

std::string sweep_begun_json(const std::string& point) { return json_text({{"event", "begun"}, {"point", point}}); }

std::string sweep_end_json(const SweepEnd& end) {
  return json_text({{"event", "end"},
                    {"status", end.interrupted ? "interrupted" : "done"},
                    {"points", end.num_points},
                    {"run", end.num_run},
                    {"kept", end.num_kept},
                    {"left_out", end.num_left_out},
                    {"folder", end.folder}});
}

std::optional<SweepLog> read_sweep_log(std::string_view text, const std::string& path) {
  std::optional<SweepLog> log;
  std::unordered_map<std::string, std::size_t> places;  // of rows, by point
  for (std::size_t number = 1;; ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return log;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    try {
      const std::optional<SweepJson> parsed = parse_json<SweepJson>(line);
      if (!parsed) throw DataError("it is not JSON");
      const JsonInput<SweepJson> json(*parsed);
      const std::string& event = json.at("event").text();
      if (!log) {
        if (event != "sweep") throw DataError("no event 'sweep'");
        log = SweepLog{sweep_header_of(json), {}, {}};
        continue;
      }
      if (event == "begun") {
        log->begun.insert(json.at("point").text());
        continue;
      }
      if (event != "point") throw DataError("an unknown event");
      SweepRow row = sweep_row_of(json, log->header.keys);
      if (!log->header.plan_only) log->begun.insert(row.point);
      const auto [place, is_new] = places.emplace(row.point, log->rows.size());
      if (is_new)
        log->rows.push_back(std::move(row));
      else
        log->rows[place->second] = std::move(row);
    } catch (const DataError& error) {
      throw DataError(
          fmt::format("{}:{}: this line is not what a sweep writes ({}); remove it, or start anew with --overwrite",
                      path, number, error.what()));
    }
  }
}

std::vector<std::string> find_differences(const std::string& former_json, const std::string& json) {
  std::vector<std::string> found;
  add_differences(config_of_results(former_json), config_of_results(json), "", found);
  return found;
}

void RunEventReader::read(std::string_view line) {
  const std::optional<SweepJson> parsed = parse_json<SweepJson>(line);
  if (!parsed || !parsed->is_object() || !parsed->contains("event") || !(*parsed)["event"].is_string()) return;
  const SweepJson& json = *parsed;
  const std::string event = json["event"];
  if (event == "start") {
    started_ = true;
    total_steps_ = json.value("total_steps", std::int64_t{0});
    tokens_per_sample_ = json.value("tokens_per_sample", std::int64_t{0});
    row_.batch_size = number_at<std::int64_t>(json, "batch_size");
    row_.asked_batch_size = number_at<std::int64_t>(json, "asked_batch_size");
    if (const auto device = json.find("device"); device != json.end())
      row_.capacity = number_at<std::int64_t>(*device, "capacity");
  } else if (event == "step") {
    ++row_.steps;
    row_.train_loss = number_at<double>(json, "loss");
    if (row_.train_loss) train_losses_.add(json.value("step", row_.steps), *row_.train_loss);
    Timing& timing = row_.steps == 1 ? first_ : later_;
    ++timing.steps;
    timing.samples += json.value("samples", std::int64_t{0});
    timing.seconds += json.value("step_seconds", 0.0);
    if (const auto memory = json.find("memory"); memory != json.end() && memory->is_object()) {
      const auto raise = [&](std::optional<std::int64_t>& peak, const char* key) {
        peak = std::max(peak.value_or(0), memory->value(key, std::int64_t{0}));
      };
      raise(row_.peak_requested, "peak_requested");
      raise(row_.peak_allocated, "peak_allocated");
      raise(row_.peak_reserved, "peak_reserved");
      raise(row_.peak_used, "device_used");
    }
  } else if (event == "eval") {
    const std::optional<double> loss = number_at<double>(json, "loss");
    if (loss) add_evaluation({json.value("step", row_.steps), *loss, number_at<double>(json, "accuracy")});
  } else if (event == "end") {
    ended_ = true;
    row_.loss = number_at<double>(json, "loss");
    row_.accuracy = number_at<double>(json, "accuracy");
    row_.error = json.value("error", "");
    // A run that was refused by its plan held nothing.
    if (row_.steps == 0) return;
    row_.by_category = categories_at(json, "peak_by_category");
    for (const auto& [peak, key] :
         {std::pair{&row_.peak_requested, "peak_requested"}, std::pair{&row_.peak_allocated, "peak_allocated"},
          std::pair{&row_.peak_reserved, "peak_reserved"}, std::pair{&row_.peak_used, "peak_used"}}) {
      if (const std::optional<std::int64_t> told = number_at<std::int64_t>(json, key)) *peak = told;
    }
  }
}

void RunEventReader::add_evaluation(const EvaluatedPoint& point) {
  std::vector<EvaluatedPoint>& kept = row_.evaluations;
  // The one before is only kept where it is on the grid; the last always is.
  if (!kept.empty() && (evaluations_seen_ - 1) % evaluations_apart_ != 0) kept.pop_back();
  kept.push_back(point);
  ++evaluations_seen_;
  if (kept.size() <= most_curve_points) return;
  evaluations_apart_ *= 2;
  std::size_t num_kept = 0;
  for (std::size_t i = 0; i < kept.size(); i += 2) kept[num_kept++] = kept[i];
  kept.resize(num_kept);
}

bool RunEventReader::fill(SweepRow& row) const {
  SweepRow filled = row_;
  filled.point = row.point;
  filled.values = row.values;
  filled.train_losses = train_losses_.points(most_curve_points);
  const Timing& timing = later_.steps > 0 ? later_ : first_;
  if (timing.steps > 0 && timing.seconds > 0) {
    filled.samples_per_second = static_cast<double>(timing.samples) / timing.seconds;
    if (tokens_per_sample_ > 0)
      filled.tokens_per_second = static_cast<double>(tokens_per_sample_) * *filled.samples_per_second;
    filled.step_seconds = timing.seconds / static_cast<double>(timing.steps);
  }
  row = std::move(filled);
  return ended_;
}

}  // namespace trainer
