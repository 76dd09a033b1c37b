#include "engine/report/page/recorded_ending.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/config/text/json_input.h"
#include "engine/report/page/fix_command.h"
#include "engine/report/record/run_plan.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

using EventInput = JsonInput<Json>;

/// Null where it is missing or null.
Json number_in(const EventInput& event, std::string_view name) {
  const std::optional<EventInput> value = event.find(name);
  return value && !value->is_null() ? Json(value->number()) : Json(nullptr);
}

Json text_in(const EventInput& event, std::string_view name) {
  const std::optional<EventInput> value = event.find(name);
  return value && !value->is_null() ? Json(value->text()) : Json("");
}

std::vector<std::string> texts_in(const EventInput& event, std::string_view name) {
  std::vector<std::string> texts;
  for (const EventInput& item : event.at(name).items()) texts.push_back(item.text());
  return texts;
}

std::vector<EventInput> items_in(const EventInput& event, std::string_view name) {
  const std::optional<EventInput> list = event.find(name);
  return list ? list->items() : std::vector<EventInput>();
}

Json end_of(const EventInput& end) {
  Json json = {{"error", text_in(end, "error")}};
  for (const char* const name : {"seconds", "samples_per_second", "loss", "accuracy"})
    json[name] = number_in(end, name);
  return json;
}

Json failure_told(const EventInput& oom, const std::string& config_path, const std::string& gpu,
                  const std::string& capacity) {
  Json json = {{"step", oom.at("step").integer()}};
  for (const char* const name : {"phase", "layer", "buffer"}) json[name] = oom.at(name).text();
  for (const char* const name : {"requested", "allocated", "reserved", "capacity"}) json[name] = oom.at(name).integer();
  json["top"] = Json::array();
  for (const EventInput& buffer : items_in(oom, "top"))
    json["top"].push_back({{"name", buffer.at("name").text()},
                           {"layer", buffer.at("layer").text()},
                           {"category", buffer.at("category").text()},
                           {"bytes", buffer.at("bytes").integer()}});
  json["fixes"] = Json::array();
  for (const EventInput& fix : items_in(oom, "fixes")) {
    const std::vector<std::string> set = texts_in(fix, "set");
    json["fixes"].push_back(
        {{"set", set},
         {"what", text_in(fix, "what")},
         {"peak_reserved", fix.at("peak_reserved").integer()},
         {"fits", fix.at("fits").boolean()},
         {"numbers", text_in(fix, "numbers")},
         {"relative_step_time", fix.at("relative_step_time").number()},
         {"command", fix_command({.path = config_path, .set = set, .gpu = gpu, .capacity = capacity})}});
  }
  return json;
}

Json divergence_told(const EventInput& diverged) {
  return {{"step", diverged.at("step").integer()},
          {"layer", text_in(diverged, "layer")},
          {"tensor", text_in(diverged, "tensor")}};
}

}  // namespace

Json recorded_ending(const RunRecord& run) try {
  // A run that does not fit leaves no configuration, and then nothing is to be pasted.
  std::string config_path = (std::filesystem::path(run.folder) / config_file).string();
  std::error_code ignored;
  if (!std::filesystem::exists(config_path, ignored)) config_path.clear();
  Json json = {
      {"end", run.end ? end_of(EventInput(*run.end)) : Json(nullptr)},
      {"oom", run.out_of_memory ? failure_told(EventInput(*run.out_of_memory), config_path, shipped_gpu_of(run),
                                               run.capacity > 0 ? std::to_string(run.capacity) : "")
                                : Json(nullptr)},
      {"diverged", run.diverged ? divergence_told(EventInput(*run.diverged)) : Json(nullptr)},
      {"adaptations", Json::array()}};
  for (const Json& adaptation : run.adaptations) {
    const EventInput event(adaptation);
    json["adaptations"].push_back(
        {{"step", event.at("step").integer()}, {"set", texts_in(event, "set")}, {"what", text_in(event, "what")}});
  }
  return json;
} catch (const JsonMistake& mistake) {
  throw DataError(fmt::format("{}: {}", run.path, mistake.what()));
}

}  // namespace trainer
