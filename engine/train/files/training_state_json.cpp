#include "engine/train/files/training_state_json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "engine/train/files/preprocessing_json.h"

namespace trainer {
namespace {

/// A run of a step each microsecond for thirty years; sums and products of such counts are far from overflowing.
constexpr std::int64_t most_stages = 10'000;
constexpr std::int64_t most_counted = 1'000'000'000'000'000;

nlohmann::json json_of_optional(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

std::optional<double> read_optional(const JsonInput<nlohmann::json>& value) {
  return value.is_null() ? std::nullopt : std::optional(value.number());
}

std::optional<std::uint32_t> read_checksum(const std::optional<JsonInput<nlohmann::json>>& value) {
  if (!value) return std::nullopt;
  return static_cast<std::uint32_t>(value->integer(0, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

nlohmann::json training_state_json(const TrainingState& state) {
  nlohmann::json json = {{"step", state.step},
                         {"pass", state.pass},
                         {"samples", state.samples},
                         {"evaluated", state.evaluated},
                         {"num_samples", state.num_samples},
                         {"best", {{"value", json_of_optional(state.best_value)}, {"step", state.best_step}}},
                         {"early_stopping",
                          {{"value", json_of_optional(state.stopping_value)},
                           {"evaluations_without_improvement", state.evaluations_without_improvement}}}};
  if (state.train_crc32) json["data"]["train_crc32"] = *state.train_crc32;
  if (state.validation_crc32) json["data"]["validation_crc32"] = *state.validation_crc32;
  if (!state.preprocessing.is_empty())
    json["data"]["preprocessing"] = preprocessing_json<nlohmann::json>(state.preprocessing);
  for (const FrozenChecksum& frozen : state.frozen)
    json["frozen"].push_back({{"network", frozen.network}, {"crc32", frozen.crc32}});
  if (!state.device.empty()) json["device"] = state.device;
  if (const StageBegin& stage = state.stage; !stage.name.empty()) {
    json["stage"] = {{"index", stage.index}, {"name", stage.name},       {"step", stage.step},
                     {"pass", stage.pass},   {"samples", stage.samples}, {"epoch", stage.epoch}};
    for (const auto& [parameter, updates] : stage.updates_before)
      if (updates != 0) json["stage"]["updates_before"][parameter] = updates;
  }
  if (!state.adapted.empty())
    json["adapted"] = {{"set", state.adapted}, {"given", nlohmann::json::parse(state.given_config)}};
  return json;
}

TrainingState read_training_state(const JsonInput<nlohmann::json>& json) {
  TrainingState state;
  state.step = json.at("step").integer(0, most_counted);
  state.pass = json.at("pass").integer(0, most_counted);
  state.samples = json.at("samples").integer(0, most_counted);
  state.evaluated = json.at("evaluated").boolean();
  state.num_samples = json.at("num_samples").integer(0, most_counted);
  state.best_value = read_optional(json.at("best").at("value"));
  state.best_step = json.at("best").at("step").integer(0, state.step);
  const auto stopping = json.at("early_stopping");
  state.stopping_value = read_optional(stopping.at("value"));
  // Before the first step, and after each.
  state.evaluations_without_improvement = stopping.at("evaluations_without_improvement").integer(0, state.step + 1);
  if (const auto data = json.find("data")) {
    state.train_crc32 = read_checksum(data->find("train_crc32"));
    state.validation_crc32 = read_checksum(data->find("validation_crc32"));
    if (const auto preprocessing = data->find("preprocessing"))
      state.preprocessing = read_preprocessing(*preprocessing);
  }
  if (const auto frozen = json.find("frozen"))
    for (const auto& each : frozen->items())
      state.frozen.push_back({each.at("network").text(), read_checksum(each.at("crc32")).value()});
  if (const auto device = json.find("device")) state.device = device->text();
  if (const auto stage = json.find("stage")) {
    StageBegin& begin = state.stage;
    begin.index = static_cast<std::size_t>(stage->at("index").integer(0, most_stages));
    begin.name = stage->at("name").text();
    begin.step = stage->at("step").integer(0, state.step);
    begin.pass = stage->at("pass").integer(0, state.pass);
    begin.samples = stage->at("samples").integer(0, state.samples);
    begin.epoch = stage->at("epoch").integer(0, most_counted);
    if (const auto updates = stage->find("updates_before"))
      for (const auto& [parameter, count] : updates->object().items())
        begin.updates_before.emplace(parameter, updates->at(parameter).integer(0, begin.step));
  }
  if (const auto adapted = json.find("adapted")) {
    for (const auto& text : adapted->at("set").items()) state.adapted.push_back(text.text());
    state.given_config = adapted->at("given").object().dump();
  }
  return state;
}

}  // namespace trainer
