#include "engine/report/run/event_json.h"
#include "engine/config/text/json_output.h"
#include "engine/report/memory/process_report.h"

#include <fmt/compile.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/config/load_experiment.h"
#include "engine/report/memory/diagnosis_text.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/run/metrics_text.h"
#include "engine/report/run/weights_report.h"
#include "engine/report/text/allocator_text.h"
#include "engine/report/text/change_text.h"
#include "engine/report/text/numbers_text.h"
#include "engine/train/files/preprocessing_json.h"

namespace trainer {
namespace {

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json optional_categories(const std::optional<CategoryBytes>& bytes) { return bytes ? by_category_of(*bytes) : nullptr; }

Json numbers_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(std::isfinite(value) ? Json(value) : Json(nullptr));
  return list;
}

/// What only some evaluations find.
void add_metrics(Json& json, const LossTerms& terms, const CountedMetrics& counted) {
  if (terms.count > 0) json["losses"] = numbers_of({terms.values.begin(), terms.values.begin() + terms.count});
  for (const auto& [key, value] : {std::pair{"mean_iou", counted.mean_iou},
                                   {"dice", counted.dice},
                                   {"mae", counted.mae},
                                   {"r2", counted.r2},
                                   {"perplexity", counted.perplexity},
                                   {"bits_per_byte", counted.bits_per_byte}})
    if (value) json[key] = *value;
  if (counted.class_iou.empty()) return;
  json["class_iou"] = numbers_of(counted.class_iou);
  json["class_dice"] = numbers_of(counted.class_dice);
}

/// By truth and guess.
Json confusion_of(const CountedMetrics& counted) {
  const std::size_t classes = counted.class_iou.size();
  Json rows = Json::array();
  for (std::size_t truth = 0; truth < classes; ++truth) {
    const std::int64_t* const row = counted.confusion.begin() + truth * classes;
    rows.push_back(std::vector<std::int64_t>(row, row + classes));
  }
  return rows;
}

Json memory_of(const DeviceMemory& memory) {
  return {{"requested", memory.step.requested},       {"peak_requested", memory.step.peak_requested},
          {"allocated", memory.step.allocated},       {"peak_allocated", memory.step.peak_allocated},
          {"reserved", memory.step.reserved},         {"peak_reserved", memory.step.peak_reserved},
          {"device_used", memory.device_used},        {"device_total", memory.device_total},
          {"alloc_retries", memory.num_alloc_retries}};
}

Json processes_of(const std::vector<DeviceProcess>& processes) {
  Json json = Json::array();
  for (const DeviceProcess& process : processes)
    json.push_back({{"pid", process.pid}, {"name", process.name}, {"bytes", process.num_bytes}});
  return json;
}

/// As nlohmann writes it: the shortest text that is read back as the same number, with a point or an exponent.
struct JsonNumber {
  double value;
};

char* append(char* end, std::string_view text) { return std::copy(text.begin(), text.end(), end); }
char* append(char* end, std::int64_t value) { return fmt::format_to(end, FMT_COMPILE("{}"), value); }
char* append(char* end, JsonNumber number) {
  if (!std::isfinite(number.value)) return append(end, "null");
  char* const begin = end;
  end = fmt::format_to(end, FMT_COMPILE("{}"), number.value);
  const auto tells_fraction = [](char letter) { return letter == '.' || letter == 'e'; };
  return std::any_of(begin, end, tells_fraction) ? end : append(end, ".0");
}

double rate(std::int64_t samples, double seconds) { return seconds > 0 ? static_cast<double>(samples) / seconds : 0.0; }

Json json_of(const StartEvent& event) {
  Json config = nullptr;
  if (event.experiment != nullptr) config = Json::parse(resolved_json(*event.experiment), nullptr, false);
  Json json = {{"event", "start"},
               {"schema", event_schema_version},
               {"config", config.is_discarded() ? Json(nullptr) : config},
               {"device", {{"kind", event.device_kind}, {"name", event.device_name}, {"capacity", event.capacity}}},
               {"allocator", allocator_name(event.allocator)},
               {"first_placed_step", event.first_placed_step < 0 ? Json(nullptr) : Json(event.first_placed_step)},
               {"parameters", event.num_parameters},
               {"trained_parameters", event.num_trained},
               {"version", event.trainer_version},
               {"total_steps", event.total_steps},
               {"steps_per_epoch", event.steps_per_epoch},
               {"first_step", event.first_step},
               {"batch_size", event.batch_size},
               {"asked_batch_size", event.asked_batch_size ? Json(*event.asked_batch_size) : Json(nullptr)},
               {"planned_peak_reserved", event.planned_peak_reserved},
               {"adapted", event.adapted},
               {"transport", event.carrier ? Json(*event.carrier == Carrier::mpi ? "mpi" : "tcp") : Json(nullptr)},
               {"preprocessing", preprocessing_json<Json>(event.preprocessing)},
               {"weights", event.weights ? weights_json(*event.weights) : Json(nullptr)},
               {"outside_allocator", outside_allocator_of(event.outside_allocator)},
               {"process", process_memory_json(event.process, event.planned_touched)},
               {"planned_by_category", optional_categories(event.planned_by_category)},
               {"pid", event.teller.pid},
               {"host", event.teller.host},
               {"time", event.teller.begin_seconds}};
  if (!event.frozen.empty()) json["frozen"] = frozen_json(event.frozen);
  if (event.tokens_per_sample > 0) {
    json["tokens_per_sample"] = event.tokens_per_sample;
    json["flops_per_sample"] = event.flops_per_sample;
    json["peak_flops_per_second"] = optional_number(event.peak_flops_per_second);
  }
  return json;
}

void append_line(const StepEvent& event, std::string& line) {
  // Room for 17 integers of 20 digits, 8 numbers of 24 letters, those of the terms, and their names.
  std::array<char, 1280 + std::size_t{most_loss_terms} * 32> text{};
  char* end = text.data();
  const auto add = [&end](auto... parts) { ((end = append(end, parts)), ...); };
  add(R"(,"loss":)", JsonNumber{event.loss}, R"(,"lr":)", JsonNumber{event.learning_rate}, R"(,"samples":)",
      event.samples, R"(,"samples_per_second":)", JsonNumber{rate(event.samples, event.seconds)}, R"(,"step_seconds":)",
      JsonNumber{event.seconds}, R"(,"data_seconds":)", JsonNumber{event.data_seconds});
  if (event.tokens) {
    add(R"(,"tokens":)", event.tokens->trained, R"(,"tokens_per_second":)",
        JsonNumber{rate(event.tokens->trained, event.seconds)}, R"(,"tokens_seen":)", event.tokens->seen);
    if (event.tokens->mfu) add(R"(,"mfu":)", JsonNumber{*event.tokens->mfu});
  }
  const StepMemory& memory = event.memory.step;
  add(R"(,"memory":{"requested":)", memory.requested, R"(,"peak_requested":)", memory.peak_requested,
      R"(,"allocated":)", memory.allocated, R"(,"peak_allocated":)", memory.peak_allocated, R"(,"reserved":)",
      memory.reserved, R"(,"peak_reserved":)", memory.peak_reserved, R"(,"device_used":)", event.memory.device_used,
      R"(,"device_total":)", event.memory.device_total, R"(,"alloc_retries":)", event.memory.num_alloc_retries, "}");
  for (int term = 0; term < event.terms.count; ++term)
    add(term == 0 ? R"(,"losses":[)" : ",", JsonNumber{event.terms.values[static_cast<std::size_t>(term)]});
  if (event.terms.count > 0) add("]");
  if (event.loss_scale)
    add(R"(,"loss_scale":)", JsonNumber{*event.loss_scale}, R"(,"skipped":)", event.skipped ? "true" : "false");
  add("}");

  std::array<char, 128> head{};
  char* head_end = append(append(append(head.data(), R"({"event":"step","step":)"), event.step), R"(,"epoch":)");
  head_end = append(append(head_end, event.epoch), R"(,"stage":)");
  line.append(head.data(), head_end);
  line += event.stage == "train" ? R"("train")" : json_text(event.stage);
  line.append(text.data(), end);
}

Json json_of(const EvalEvent& event) {
  Json json{{"event", "eval"},
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
            {"averaged", event.averaged},
            {"memory", memory_of(event.memory)}};
  add_metrics(json, event.terms, event.counted);
  if (!event.target_unit.empty()) json["target_unit"] = event.target_unit;
  return json;
}

Json json_of(const StageEvent& event) {
  Json purge = nullptr;
  if (event.purge)
    purge = {{"allocated_before", event.purge->allocated_before},
             {"reserved_before", event.purge->reserved_before},
             {"allocated_after", event.purge->allocated_after},
             {"reserved_after", event.purge->reserved_after},
             {"used_baseline", event.purge->used_baseline},
             {"used_before", event.purge->used_before},
             {"used_after", event.purge->used_after},
             {"to_fit", event.purge->to_fit}};
  return {{"event", "stage"},
          {"stage", event.name},
          {"index", event.index},
          {"stages", event.count},
          {"first_step", event.first_step},
          {"last_step", event.last_step},
          {"steps_per_epoch", event.steps_per_epoch},
          {"batch_size", event.batch_size},
          {"parameters", event.num_parameters},
          {"trained_parameters", event.num_trained},
          {"capacity", event.capacity},
          {"allocator", allocator_name(event.allocator)},
          {"planned_peak_reserved", event.planned_peak_reserved},
          {"planned_by_category", optional_categories(event.planned_by_category)},
          {"optimizer_state", {{"continued", event.num_continued}, {"begun", event.num_begun}}},
          {"purge", std::move(purge)}};
}

Json json_of(const CheckpointEvent& event) {
  return {{"event", "checkpoint"}, {"step", event.step}, {"path", event.path}, {"seconds", event.seconds}};
}

Json json_of(const OutOfMemoryEvent& event) {
  Json json = {{"event", "oom"}};
  json.update(failure_of(event.context));
  if (!event.stage.empty()) json["stage"] = event.stage;
  if (event.num_ranks > 1) json["rank"] = event.rank;
  if (event.num_stages > 1) json["pipeline"] = {{"stage", event.pipeline_stage}, {"layers", event.layers}};
  json["allocator"] = allocator_name(event.allocator);
  json["outside_allocator"] = outside_allocator_of(event.outside_allocator);
  json["other_processes"] = processes_of(event.other_processes);
  json["device_total"] = event.device_total;
  json["diagnosis"] = diagnosis_json(event.diagnosis);
  json["fixes"] = fixes_of(event.fixes);
  return json;
}

Json json_of(const AdaptEvent& event) {
  const OutOfMemoryContext& context = event.context;
  const Change& change = event.change;
  return {{"event", "adapt"},
          {"step", event.step},
          {"phase", name_of(context.phase)},
          {"layer", context.layer},
          {"op", context.op},
          {"buffer", context.buffer},
          {"planned", context.planned},
          {"requested", context.failure.requested},
          {"segment", context.failure.segment_bytes},
          {"reserved", context.failure.statistics.reserved_bytes.all.current},
          {"capacity_before", event.capacity},
          {"capacity", change.capacity},
          {"set", change.set},
          {"what", change_text(change)},
          {"peak_reserved", change.peak_reserved},
          {"same_result", change.same_result()},
          {"numbers", numbers_name(change.numbers)},
          {"relative_step_time", change.relative_step_time},
          {"step_seconds", change.step_seconds}};
}

Json json_of(const WarningEvent& event) {
  return {{"event", "warning"},
          {"step", event.step},
          {"message", event.message},
          {"buffer", event.buffer},
          {"bytes", event.num_bytes}};
}

Json json_of(const DivergedEvent& event) {
  return {{"event", "diverged"},
          {"step", event.step},
          {"loss", event.loss},
          {"layer", event.layer},
          {"tensor", event.tensor}};
}

Json json_of(const EndEvent& event) {
  Json json = {{"event", "end"},
               {"status", event.status},
               {"steps", event.steps},
               {"seconds", event.seconds},
               {"training_seconds", event.training_seconds},
               {"data_seconds", event.data_seconds},
               {"samples", event.samples},
               {"samples_per_second", rate(event.samples, event.training_seconds)},
               {"loss", optional_number(event.loss)},
               {"accuracy", optional_number(event.accuracy)},
               {"top5", optional_number(event.top5)},
               {"averaged", event.averaged},
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
                 {"branches", event.passes.branches},
                 {"obstacle", event.passes.obstacle}}},
               {"peak_by_category", by_category_of(event.peak_by_category)},
               {"outside_allocator", outside_allocator_of(event.outside_allocator)},
               {"process", process_memory_json(
                               event.process, event.planned_touched > 0 ? event.planned_touched : event.peak_reserved)},
               {"peak_resident", event.peak_resident},
               {"output", event.output},
               {"checkpoint", event.last_checkpoint}};
  json["adaptations"] = Json::array();
  for (const EndEvent::Adaptation& adaptation : event.adaptations)
    json["adaptations"].push_back({{"step", adaptation.step},
                                   {"set", adaptation.set},
                                   {"capacity", adaptation.capacity},
                                   {"same_result", adaptation.numbers != NumbersEffect::other},
                                   {"numbers", numbers_name(adaptation.numbers)}});
  if (!event.stages.empty()) json["stages"] = Json::array();
  for (const EndEvent::Stage& stage : event.stages)
    json["stages"].push_back({{"stage", stage.name},
                              {"steps", stage.steps},
                              {"seconds", stage.seconds},
                              {"consumed", stage.consumed},
                              {"peak_allocated", stage.peak_allocated},
                              {"peak_reserved", stage.peak_reserved},
                              {"planned_peak_reserved", stage.planned_peak_reserved},
                              {"loss", optional_number(stage.loss)},
                              {"accuracy", optional_number(stage.accuracy)},
                              {"stopped_early", stage.stopped_early}});
  add_metrics(json, event.terms, event.counted);
  if (!event.target_unit.empty()) json["target_unit"] = event.target_unit;
  if (!event.counted.confusion.empty() && event.counted.class_iou.size() <= most_told_classes)
    json["confusion_matrix"] = confusion_of(event.counted);
  if (event.tokens) {
    json["tokens"] = event.tokens->trained;
    json["tokens_per_second"] = rate(event.tokens->trained, event.training_seconds);
    json["tokens_seen"] = event.tokens->seen;
    json["mfu"] = optional_number(event.tokens->mfu);
  }
  json["device_notes"] = event.device_notes;
  json["warnings"] = event.num_warnings;
  if (!event.error.empty()) json["error"] = event.error;
  return json;
}

template <typename Told>
void append_line(const Told& event, std::string& line) {
  line += json_text(json_of(event));
}

}  // namespace

std::string event_json(const Event& event) {
  std::string line;
  append_event_json(event, line);
  return line;
}

void append_event_json(const Event& event, std::string& line) {
  std::visit([&line](const auto& told) { append_line(told, line); }, event);
}

}  // namespace trainer
