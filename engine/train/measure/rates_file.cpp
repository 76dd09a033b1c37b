#include "engine/train/measure/rates_file.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/config/text/json_input.h"
#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/measure/kept_file.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int format_version = 1;
constexpr std::array<const char*, num_rate_classes> rate_class_names = {"usual", "other"};
constexpr std::array<std::pair<const char*, double OpRate::*>, 3> figures = {{
    {"flops_per_second", &OpRate::flops_per_second},
    {"bytes_per_second", &OpRate::bytes_per_second},
    {"call_seconds", &OpRate::call_seconds},
}};

Json json_of(const RateTable& table) {
  Json rate_classes = Json::object();
  for (std::size_t rate_class = 0; rate_class < table.size(); ++rate_class) {
    for (std::size_t kind = 0; kind < table[rate_class].size(); ++kind) {
      Json& entry = rate_classes[rate_class_names[rate_class]][std::string(name_of(static_cast<OpKind>(kind)))];
      for (const auto& [name, figure] : figures) entry[name] = table[rate_class][kind].*figure;
    }
  }
  return rate_classes;
}

double seconds_of(const JsonInput<Json>& value) {
  constexpr double least = std::numeric_limits<double>::denorm_min(), most = 1e9;
  return value.number(least, most);
}

RateTable table_of(const JsonInput<Json>& rate_classes) {
  constexpr double least_rate = 1, most_rate = 1e30;
  RateTable table;
  for (std::size_t rate_class = 0; rate_class < table.size(); ++rate_class) {
    for (std::size_t kind = 0; kind < table[rate_class].size(); ++kind) {
      const auto entry = rate_classes.at(rate_class_names[rate_class]).at(name_of(static_cast<OpKind>(kind)));
      for (const auto& [name, figure] : figures)
        table[rate_class][kind].*figure =
            figure == &OpRate::call_seconds ? seconds_of(entry.at(name)) : entry.at(name).number(least_rate, most_rate);
    }
  }
  return table;
}

}  // namespace

std::string rates_path(std::string_view device_name) {
  std::string name;
  for (const char letter : device_name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    if (is_plain || (!name.empty() && name.back() != '-')) name += is_plain ? letter : '-';
  }
  return kept_path(fmt::format("rates-{}.json", name));
}

void write_rates(const std::string& path, std::string_view device_name, const MachineRates& rates) {
  const Json json = {{"format", format_version},
                     {"device", device_name},
                     {"step_seconds", rates.step_seconds},
                     {"f32", json_of(rates.f32)},
                     {"half", json_of(rates.half)}};
  write_kept_file(path, json.dump(1) + "\n");
}

std::optional<MachineRates> read_rates(const std::string& path, std::string_view device_name) {
  std::error_code error;
  if (!fs::exists(path, error) && !error) return std::nullopt;
  constexpr std::size_t most_bytes = std::size_t{1} << 20;
  const auto refused = [&](const std::string& why) {
    return DataError(fmt::format("the measured speeds in {} cannot be used: {}; '{}' measures them anew", path, why,
                                 trainer_command("bench")));
  };
  try {
    const std::optional<Json> json = parse_json<Json>(read_text_file(path, most_bytes));
    if (!json) throw DataError("it is not JSON");
    const JsonInput<Json> file(*json);
    if (file.at("format").integer() != format_version) throw DataError("it is of another version of trainer");
    if (const std::string& name = file.at("device").text(); name != device_name)
      throw DataError(fmt::format("it is of '{}'", shortened(name)));
    MachineRates rates;
    rates.origin = MachineRates::Origin::measured;
    rates.source = path;
    rates.step_seconds = seconds_of(file.at("step_seconds"));
    rates.f32 = table_of(file.at("f32"));
    rates.half = table_of(file.at("half"));
    return rates;
  } catch (const DataError& reason) {
    throw refused(reason.what());
  }
}

}  // namespace trainer
