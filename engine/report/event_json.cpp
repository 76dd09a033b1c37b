#include "engine/report/event_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/report/outside_allocator.h"

namespace trainer {
namespace {

using Json = nlohmann::ordered_json;

/// Paths need not be UTF-8; the line must be.
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json memory_of(const DeviceMemory& memory) {
  return {{"requested", memory.step.requested},       {"peak_requested", memory.step.peak_requested},
          {"allocated", memory.step.allocated},       {"peak_allocated", memory.step.peak_allocated},
          {"reserved", memory.step.reserved},         {"peak_reserved", memory.step.peak_reserved},
          {"device_used", memory.device_used},        {"device_total", memory.device_total},
          {"alloc_retries", memory.num_alloc_retries}};
}

Json by_category_of(const CategoryBytes& by_category) {
  Json json = Json::object();
  for (std::size_t i = 0; i < by_category.size(); ++i) json[std::string(category_names[i])] = by_category[i];
  return json;
}

Json by_layer_of(const std::vector<LiveMemory::LayerBytes>& by_layer) {
  Json json = Json::array();
  for (const auto& layer : by_layer) json.push_back({{"layer", layer.layer}, {"bytes", layer.num_bytes}});
  return json;
}

Json top_of(const std::vector<LiveMemory::TopBuffer>& top) {
  Json json = Json::array();
  for (const auto& buffer : top)
    json.push_back({{"name", buffer.name},
                    {"layer", buffer.layer},
                    {"category", name_of(buffer.category)},
                    {"bytes", buffer.num_bytes}});
  return json;
}

Json fixes_of(const std::vector<Change>& fixes) {
  Json json = Json::array();
  for (const Change& fix : fixes)
    json.push_back({{"set", fix.set},
                    {"what", fix.what},
                    {"peak_reserved", fix.peak_reserved},
                    {"capacity", fix.capacity},
                    {"fits", fix.fits},
                    {"same_result", fix.same_result()},
                    {"relative_step_time", fix.relative_step_time},
                    {"step_seconds", fix.step_seconds}});
  return json;
}

Json outside_allocator_of(const std::vector<NamedBytes>& outside) {
  Json parts = Json::array();
  for (const NamedBytes& part : outside) parts.push_back({{"name", part.name}, {"bytes", part.num_bytes}});
  return {{"bytes", sum_of(outside)}, {"parts", std::move(parts)}};
}

Json processes_of(const std::vector<DeviceProcess>& processes) {
  Json json = Json::array();
  for (const DeviceProcess& process : processes)
    json.push_back({{"pid", process.pid}, {"name", process.name}, {"bytes", process.num_bytes}});
  return json;
}

/// The fields of an `oom` event that tell of the failure.
Json failure_of(const OutOfMemoryContext& context) {
  const AllocationFailure& failure = context.failure;
  const MemoryStatistics& statistics = failure.statistics;
  const std::int64_t reserved = statistics.reserved_bytes.all.current;
  return {{"step", context.step},
          {"phase", name_of(context.phase)},
          {"layer", context.layer},
          {"op", context.op},
          {"buffer", context.buffer},
          {"category", name_of(context.category)},
          {"planned", context.planned},
          {"at_peak", context.refused_peak.has_value()},
          {"requested", failure.requested},
          {"rounded", failure.rounded},
          {"segment", failure.segment_bytes},
          {"capacity", failure.capacity},
          {"allocated", context.allocated()},
          {"reserved", reserved},
          {"free", failure.capacity - reserved},
          {"largest_free_block", failure.largest_free_block},
          {"fragmentation", fragmentation(statistics, failure.largest_free_block)},
          {"alloc_retries", statistics.num_alloc_retries},
          {"by_category", by_category_of(context.live.by_category)},
          {"by_layer", by_layer_of(context.live.by_layer)},
          {"top", top_of(context.live.top)}};
}

Json step_memory_of(const StepMemory& memory) {
  return {{"peak_requested", memory.peak_requested}, {"peak_allocated", memory.peak_allocated},
          {"peak_reserved", memory.peak_reserved},   {"requested", memory.requested},
          {"allocated", memory.allocated},           {"reserved", memory.reserved}};
}

double rate(std::int64_t samples, double seconds) { return seconds > 0 ? static_cast<double>(samples) / seconds : 0.0; }

}  // namespace

std::string start_json(const StartEvent& event, std::string_view version) {
  Json config = nullptr;
  if (event.experiment != nullptr) config = Json::parse(event.experiment->resolved_json, nullptr, false);
  return line_of({{"event", "start"},
                  {"config", config.is_discarded() ? Json(nullptr) : config},
                  {"device", {{"kind", event.device_kind}, {"name", event.device_name}, {"capacity", event.capacity}}},
                  {"parameters", event.num_parameters},
                  {"version", version},
                  {"total_steps", event.total_steps},
                  {"steps_per_epoch", event.steps_per_epoch},
                  {"first_step", event.first_step},
                  {"outside_allocator", outside_allocator_of(event.outside_allocator)}});
}

std::string step_json(const StepEvent& event) {
  Json json = {{"event", "step"},
               {"step", event.step},
               {"epoch", event.epoch},
               {"stage", event.stage},
               {"loss", event.loss},
               {"lr", event.learning_rate},
               {"samples", event.samples},
               {"samples_per_second", rate(event.samples, event.seconds)},
               {"step_seconds", event.seconds},
               {"memory", memory_of(event.memory)}};
  if (event.loss_scale) {
    json["loss_scale"] = *event.loss_scale;
    json["skipped"] = event.skipped;
  }
  return line_of(json);
}

std::string eval_json(const EvalEvent& event) {
  return line_of({{"event", "eval"},
                  {"step", event.step},
                  {"epoch", event.epoch},
                  {"stage", event.stage},
                  {"loss", event.loss},
                  {"accuracy", optional_number(event.accuracy)},
                  {"top5", optional_number(event.top5)},
                  {"samples", event.samples},
                  {"samples_per_second", rate(event.samples, event.seconds)},
                  {"seconds", event.seconds},
                  {"best", event.best},
                  {"memory", memory_of(event.memory)}});
}

std::string checkpoint_json(const CheckpointEvent& event) {
  return line_of({{"event", "checkpoint"}, {"step", event.step}, {"path", event.path}, {"seconds", event.seconds}});
}

std::string out_of_memory_json(const OutOfMemoryEvent& event) {
  Json json = {{"event", "oom"}};
  json.update(failure_of(event.context));
  json["outside_allocator"] = outside_allocator_of(event.outside_allocator);
  json["other_processes"] = processes_of(event.other_processes);
  json["device_total"] = event.device_total;
  json["fixes"] = fixes_of(event.fixes);
  return line_of(json);
}

std::string diverged_json(const DivergedEvent& event) {
  return line_of({{"event", "diverged"},
                  {"step", event.step},
                  {"loss", event.loss},
                  {"layer", event.layer},
                  {"tensor", event.tensor}});
}

std::string end_json(const EndEvent& event) {
  Json json = {{"event", "end"},
               {"status", event.status},
               {"steps", event.steps},
               {"seconds", event.seconds},
               {"training_seconds", event.training_seconds},
               {"samples", event.samples},
               {"samples_per_second", rate(event.samples, event.training_seconds)},
               {"loss", optional_number(event.loss)},
               {"accuracy", optional_number(event.accuracy)},
               {"top5", optional_number(event.top5)},
               {"best", optional_number(event.best_value)},
               {"best_step", event.best_step},
               {"stopped_early", event.stopped_early},
               {"skipped_updates", event.skipped_updates},
               {"peak_requested", event.peak_requested},
               {"peak_allocated", event.peak_allocated},
               {"peak_reserved", event.peak_reserved},
               {"peak_used", event.peak_used},
               {"passes",
                {{"total", event.passes.total},
                 {"replayed", event.passes.replayed},
                 {"moved", event.passes.moved},
                 {"obstacle", event.passes.obstacle}}},
               {"peak_by_category", by_category_of(event.peak_by_category)},
               {"outside_allocator", outside_allocator_of(event.outside_allocator)},
               {"output", event.output},
               {"checkpoint", event.last_checkpoint}};
  if (!event.error.empty()) json["error"] = event.error;
  return line_of(json);
}

std::string plan_json(const PlanFindings& findings) {
  const MemoryPlan& plan = findings.shown();
  Json steps = Json::array();
  for (const PlannedSteps& planned : plan.steps) {
    Json entry = step_memory_of(planned.memory);
    entry["first_step"] = planned.first_step;
    entry["count"] = planned.count;
    entry["evaluation"] = planned.evaluation;
    steps.push_back(std::move(entry));
  }
  Json json = {
      {"event", "plan"},
      {"name", findings.experiment_name},
      {"device", {{"kind", findings.device_kind}, {"name", findings.device_name}}},
      {"profile", findings.is_described() ? Json(findings.profile) : Json(nullptr)},
      {"workspace", findings.workspace_bound.empty() ? "exact" : "bounded"},
      {"fits", findings.plan.fits},
      {"capacity", findings.capacity},
      {"capacity_from", findings.capacity_origin},
      {"peak_requested", plan.peak_requested},
      {"peak_allocated", plan.peak_allocated},
      {"peak_reserved", plan.peak_reserved},
      {"alloc_retries", plan.num_alloc_retries},
      {"batch_size", findings.batch_size},
      {"step_flops", findings.flops.total},
      {"recompute_flops", findings.flops.recomputed},
      {"total_steps", findings.total_steps},
      {"first_step", step_memory_of(plan.first_step)},
      {"steady_step", step_memory_of(plan.steady_step)},
      {"steps", std::move(steps)},
      {"cycle", {{"first_step", plan.cycle_first_step}, {"num_steps", plan.cycle_num_steps}, {"end", plan.cycle_end}}},
      {"peak",
       {{"bytes", plan.peak.allocated},
        {"step", plan.peak.step},
        {"phase", name_of(plan.peak.phase)},
        {"layer", plan.peak.layer},
        {"op", plan.peak.op}}},
      {"by_category", by_category_of(plan.peak.live.by_category)},
      {"category_peaks", by_category_of(plan.peak.category_peaks)},
      {"by_layer", by_layer_of(plan.peak.live.by_layer)},
      {"top", top_of(plan.peak.live.top)},
      {"outside_allocator", outside_allocator_of(findings.outside_allocator)},
      {"offload_bytes", findings.offload_bytes}};
  if (!findings.plan.fits) {
    if (findings.plan.failure) json["failure"] = failure_of(*findings.plan.failure);
    json["largest_batch_size"] = findings.largest_batch_size;
    json["fixes"] = fixes_of(findings.fixes);
  }
  return line_of(json);
}

}  // namespace trainer
