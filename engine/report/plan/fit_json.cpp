#include <nlohmann/json.hpp>

#include "engine/config/fields/enum_choices.h"
#include "engine/config/text/json_output.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/plan/fit_report.h"
#include "engine/report/text/change_text.h"
#include "engine/report/text/numbers_text.h"

namespace trainer {
namespace {

using Json = nlohmann::ordered_json;

Json next_of(const Maximum& maximum) {
  if (!maximum.next) return nullptr;
  const TooLargeValue& next = *maximum.next;
  Json json = {{"value", next.value}, {"fits", false}};
  if (!next.problem.empty()) {
    json["problem"] = next.problem;
    return json;
  }
  json["peak_reserved"] = next.peak_reserved;
  if (next.failure) {
    json["step"] = next.failure->step;
    json["phase"] = name_of(next.failure->phase);
    json["layer"] = next.failure->layer;
    json["op"] = next.failure->op;
  }
  return json;
}

Json maximum_of(const Maximum& maximum) {
  const LargestValue& found = maximum.found;
  const HighestValue& isolated = maximum.isolated;
  const std::optional<std::int64_t> value = maximum.value();
  Json higher = nullptr;
  if (isolated.value) higher = {{"value", *isolated.value}, {"peak_reserved", isolated.peak_reserved}};
  return {{"key", maximum.key},
          {"value", value ? Json(*value) : Json(nullptr)},
          {"peak_reserved", value ? Json(maximum.peak_reserved()) : Json(nullptr)},
          {"lowest", maximum.lowest},
          {"highest", maximum.highest},
          {"bounded_by_data", maximum.ends_at_data && value == maximum.highest},
          {"all_smaller_fit", found.value.has_value()},
          {"all_planned_from", found.value ? Json(found.planned_from) : Json(nullptr)},
          {"all_known_from", found.value ? Json(found.known_from) : Json(nullptr)},
          {"num_smaller_planned", found.num_smaller},
          {"num_smaller_proven", found.num_proven},
          {"next", next_of(maximum)},
          {"isolated", std::move(higher)},
          {"smaller_that_fail", isolated.smaller_that_fail},
          {"num_planned", found.num_planned + isolated.num_planned},
          {"num_unknown", found.num_unknown + isolated.num_unknown}};
}

Json layout_json(const Layout& layout) {
  const bool is_pipeline = layout.pipeline > 1;
  return {{"data", layout.data},
          {"pipeline", layout.pipeline},
          {"tensor", layout.tensor},
          {"schedule", is_pipeline ? Json(pipeline_order_choices().name_of(layout.schedule)) : Json(nullptr)},
          {"micro_batches", layout.micro_batches},
          {"shard", shard_choices().name_of(layout.shard)}};
}

Json layouts_of(const SearchedLayouts& searched) {
  Json refused = Json::array();
  for (const RefusedLayouts& each : searched.refused)
    refused.push_back({{"layouts", each.num_layouts}, {"problem", each.reason}, {"first", layout_json(each.first)}});
  return {{"gpus", searched.gpus.num_gpus},  {"nodes", searched.gpus.num_nodes},    {"layouts", searched.num_layouts},
          {"planned", searched.num_planned}, {"too_large", searched.num_too_large}, {"refused", std::move(refused)}};
}

Json choices_of(const FitFindings& findings) {
  Json json = Json::array();
  for (const FitChoice& choice : findings.choices) {
    json.push_back({{"set", choice.set},
                    {"what", change_text(choice)},
                    {"peak_reserved", choice.peak_reserved},
                    {"relative_step_time", choice.relative_step_time},
                    {"step_seconds", choice.step_seconds},
                    {"samples_per_second", choice.samples_per_second},
                    {"same_result", choice.same_result()},
                    {"numbers", numbers_name(choice.numbers)},
                    {"ranks", choice.num_ranks()}});
    if (!findings.searched_ranks.empty())
      json.back()["efficiency"] = choice.efficiency ? Json(*choice.efficiency) : Json(nullptr);
    if (!choice.layout) continue;
    json.back()["layout"] = layout_json(choice.layout->layout);
    json.back()["computing_share"] = choice.layout->computing_share;
    json.back()["communicated_bytes"] = choice.layout->sent_bytes;
  }
  return json;
}

Json searched_of(const std::vector<SearchedRanks>& searched) {
  Json json = Json::array();
  for (const SearchedRanks& each : searched)
    json.push_back({{"ranks", each.num_ranks},
                    {"fits", each.fits},
                    {"capacity", each.problem.empty() ? Json(each.capacity) : Json(nullptr)},
                    {"knows_links", each.knows_links},
                    {"problem", each.problem.empty() ? Json(nullptr) : Json(each.problem)}});
  return json;
}

}  // namespace

std::string fit_json(const FitFindings& findings) {
  Json json = {{"event", "fit"},
               {"schema", event_schema_version},
               {"name", findings.experiment_name},
               {"device", {{"kind", findings.device_kind}, {"name", findings.device_name}}},
               {"profile", findings.profile.empty() ? Json(nullptr) : Json(findings.profile)},
               {"capacity", findings.capacity},
               {"capacity_from", findings.capacity_origin},
               {"ranks", findings.num_ranks},
               {"notes", findings.notes}};
  if (!findings.searched_ranks.empty()) json["searched_ranks"] = searched_of(findings.searched_ranks);
  if (findings.layouts) json["searched_layouts"] = layouts_of(*findings.layouts);
  if (findings.maximum) {
    json["maximum"] = maximum_of(*findings.maximum);
  } else {
    json["samples_per_update"] = findings.effective_batch;
    json["batch_size"] = findings.batch_size;
    json["asked_batch_size"] = findings.asked_batch_size ? Json(*findings.asked_batch_size) : Json(nullptr);
    json["as_is"] = {{"fits", findings.as_is_fits}, {"peak_reserved", findings.as_is_peak}};
    json["rates"] = rates_of(findings.rates, findings.rates_source);
    json["choices"] = choices_of(findings);
  }
  return json_text(json);
}

}  // namespace trainer
