#include "engine/report/plan/plan_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "engine/config/fields/enum_choices.h"
#include "engine/config/text/json_output.h"
#include "engine/report/memory/diagnosis_text.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/memory/process_report.h"
#include "engine/report/plan/data_supply_text.h"
#include "engine/report/plan/prediction_plan_report.h"
#include "engine/report/plan/verification_report.h"
#include "engine/report/text/allocator_text.h"

namespace trainer {
namespace {

Json timeline_of(const std::vector<TimelinePoint>& timeline, const std::vector<std::string>& layer_labels) {
  Json json = Json::array();
  for (const TimelinePoint& point : timeline) {
    const auto layer = static_cast<std::size_t>(point.layer);
    json.push_back(
        {{"phase", trainer::name_of(point.phase)},
         {"layer", point.layer >= 0 && layer < layer_labels.size() ? Json(layer_labels[layer]) : Json(nullptr)},
         {"allocated", point.allocated},
         {"by_category", by_category_of(point.by_category)}});
  }
  return json;
}

Json uses_of(const PeakUses& uses) {
  Json kept = Json::array();
  for (const PeakUses::KeptLayer& layer : uses.kept_by_layer)
    kept.push_back({{"layer", layer.layer}, {"bytes", layer.num_bytes}});
  return {{"standing", uses.standing},     {"gradients", uses.gradients}, {"read", uses.read},
          {"written", uses.written},       {"workspace", uses.workspace}, {"kept", uses.kept},
          {"recomputed", uses.recomputed}, {"waiting", uses.waiting},     {"kept_by_layer", std::move(kept)}};
}

Json ops_of(const std::vector<StepOp>& ops) {
  Json json = Json::array();
  for (const StepOp& op : ops)
    json.push_back({{"op", trainer::name_of(op.kind)},
                    {"phase", trainer::name_of(op.phase)},
                    {"half", op.in_half},
                    {"statistics", op.statistics},
                    {"calls", op.num_calls},
                    {"flops", op.flops},
                    {"input_bytes", op.input_bytes},
                    {"output_bytes", op.output_bytes},
                    {"workspace_bytes", op.workspace_bytes},
                    {"predicted_seconds", op.predicted_seconds}});
  return json;
}

Json verification_of(const PlanVerification& verification) {
  Json steps = Json::array();
  for (const PlanVerification::Line& line : verification.lines)
    steps.push_back({{"step", line.step},
                     {"evaluation", line.evaluation},
                     {"predicted", step_memory_of(line.predicted)},
                     {"measured", step_memory_of(line.measured)},
                     {"different_bytes", num_different_bytes(line)}});
  return {{"equal", verification.is_equal()},
          {"steps", std::move(steps)},
          {"used_before", verification.used_before},
          {"used_highest", verification.used_highest}};
}

}  // namespace

namespace {

Json or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); }

Json ranks_of(const PlanFindings& findings) {
  const RankFindings& ranks = findings.ranks;
  Json plans = Json::array();
  for (const RankPlan& rank : ranks.plans)
    plans.push_back({{"first_rank", rank.first_rank},
                     {"num_ranks", rank.num_ranks},
                     {"stride", rank.stride},
                     {"gpu", rank.gpu.empty() ? Json(nullptr) : Json(rank.gpu)},
                     {"capacity", rank.capacity},
                     {"batch_size", rank.batch_size},
                     {"parts", rank.num_parts},
                     {"layers", rank.layers.empty() ? Json(nullptr) : Json(rank.layers)},
                     {"fits", rank.fits},
                     {"peak_allocated", rank.peak_allocated},
                     {"peak_reserved", rank.peak_reserved},
                     {"by_category", by_category_of(rank.by_category)},
                     {"compute_seconds", rank.compute_seconds}});
  Json shards = Json::array();
  for (const ShardPlan& shard : ranks.shards)
    shards.push_back({{"shard", shard_choices().name_of(shard.shard)},
                      {"fits", shard.fits},
                      {"peak_allocated", shard.peak_allocated},
                      {"peak_reserved", shard.peak_reserved},
                      {"communicated_bytes", shard.communicated_bytes}});
  const std::optional<LinkRate> link = slowest_link({ranks.size()}, ranks.links);
  return {{"communicated_bytes", ranks.communicated_bytes},
          {"communication_seconds", or_null(ranks.communication_seconds)},
          {"waiting_seconds", ranks.communication_seconds ? Json(ranks.waiting_seconds) : Json(nullptr)},
          {"link", link ? Json(link->name) : Json(nullptr)},
          {"nodes", num_nodes({ranks.size()}, ranks.links)},
          {"efficiency", or_null(ranks.efficiency())},
          {"bubble", ranks.pipeline ? Json(ranks.pipeline->bubble) : Json(nullptr)},
          {"highest_rank", ranks.highest().first_rank},
          {"plans", std::move(plans)},
          {"shards", std::move(shards)}};
}

Json json_of_plan(const PlanFindings& findings) {
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
      {"schema", event_schema_version},
      {"name", findings.experiment_name},
      {"device", {{"kind", findings.device_kind}, {"name", findings.device_name}}},
      {"profile", findings.is_described() ? Json(findings.profile) : Json(nullptr)},
      {"workspace", findings.workspace_bound.empty() ? "exact" : "bounded"},
      {"allocator", allocator_name(findings.allocator)},
      {"fits", findings.fits()},
      {"capacity", findings.capacity},
      {"capacity_from", findings.capacity_origin},
      {"peak_requested", plan.peak_requested},
      {"peak_allocated", plan.peak_allocated},
      {"peak_reserved", plan.peak_reserved},
      {"alloc_retries", plan.num_alloc_retries},
      {"first_placed_step", plan.first_placed_step < 0 ? Json(nullptr) : Json(plan.first_placed_step)},
      {"batch_size", findings.batch_size},
      {"asked_batch_size", findings.asked_batch_size ? Json(*findings.asked_batch_size) : Json(nullptr)},
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
        {"phase", trainer::name_of(plan.peak.phase)},
        {"layer", plan.peak.layer},
        {"op", plan.peak.op}}},
      {"peak_uses", uses_of(plan.peak.uses)},
      {"by_category", by_category_of(plan.peak.live.by_category)},
      {"category_peaks", by_category_of(plan.peak.category_peaks)},
      {"by_layer", by_layer_of(plan.peak.live.by_layer)},
      {"timeline", timeline_of(plan.peak.timeline, findings.layer_labels)},
      {"top", top_of(plan.peak.live.top)},
      {"outside_allocator", outside_allocator_of(findings.outside_allocator)},
      {"process", process_memory_json(findings.process, findings.shown().peak_touched)},
      {"offload_bytes", findings.offload_bytes},
      {"eval_batch_size", findings.eval_batch_size},
      {"step_seconds", findings.step_seconds()},
      {"samples_per_second", findings.samples_per_second()},
      {"rates", rates_of(findings.rates, findings.rates_source)},
      {"ops", ops_of(findings.ops)},
      {"notes", findings.notes}};
  if (findings.tokens_per_sample > 0) json["tokens_per_second"] = findings.tokens_per_second();
  if (findings.data_supply) json["data"] = data_supply_json(*findings.data_supply);
  if (const std::optional<EvaluationCut>& cut = findings.evaluation_savings.cut)
    json["smaller_evaluation"] = {{"eval_batch_size", cut->eval_batch_size}, {"peak_reserved", cut->peak_reserved}};
  if (findings.is_advised()) {
    if (findings.failure()) json["failure"] = failure_of(*findings.failure());
    json["largest_batch_size"] = findings.largest_batch.value.value_or(0);
    json["fixes"] = fixes_of(findings.fixes);
    json["diagnosis"] = diagnosis_json(findings.diagnosis);
  }
  if (findings.verification) json["verification"] = verification_of(*findings.verification);
  if (!findings.stage.empty()) json["stage"] = findings.stage;
  if (findings.has_ranks()) json["ranks"] = ranks_of(findings);
  return json;
}

}  // namespace

std::string plan_json(const PlanFindings& findings) { return json_text(json_of_plan(findings)); }

std::string stage_plans_json(const StagePlans& plans) {
  Json json = json_of_plan(plans.stages[plans.largest()].findings);
  json["fits"] = plans.fits();
  json["stages"] = Json::array();
  for (const StagePlan& stage : plans.stages) {
    Json of_stage = json_of_plan(stage.findings);
    of_stage.erase("event");
    of_stage.erase("schema");
    of_stage["parameters"] = stage.num_parameters;
    of_stage["trained_parameters"] = stage.num_trained;
    of_stage["purged"] = stage.purged;
    of_stage["kept"] = stage.kept;
    of_stage["purged_to_fit"] = stage.is_purged_to_fit;
    json["stages"].push_back(std::move(of_stage));
  }
  for (const StagePlans::Prediction& prediction : plans.predictions) {
    Json of_prediction = Json::parse(prediction_plan_json(prediction.findings));
    of_prediction.erase("event");
    of_prediction.erase("schema");
    of_prediction["stage"] = prediction.name;
    json["predictions"].push_back(std::move(of_prediction));
  }
  return json_text(json);
}

std::string comparison_json(const PlanComparison& comparison) {
  Json targets = Json::array();
  for (const PlannedTarget& target : comparison.targets) {
    Json entry = {{"target", target.target()},
                  {"name", comparison.experiment_name},
                  {"device", {{"kind", target.device_kind}, {"name", target.device_name}}},
                  {"profile", target.profile.empty() ? Json(nullptr) : Json(target.profile)},
                  {"fits", target.fits},
                  {"capacity", target.capacity},
                  {"capacity_from", target.capacity_origin},
                  {"notes", target.notes},
                  {"note", fmt::format("{}", fmt::join(target.notes, " "))}};
    if (target.problem.empty()) {
      const std::optional<std::int64_t>& batch_size = target.batch_size_that_fits;
      entry.update({{"batch_size", target.batch_size},
                    {"peak_reserved", target.peak_reserved},
                    {"spare", target.capacity - target.peak_reserved},
                    {"batch_size_that_fits", batch_size ? Json(*batch_size) : Json(nullptr)},
                    {"step_seconds", target.step_seconds},
                    {"samples_per_second", target.samples_per_second},
                    {"rates", rates_of(target.rates, target.rates_source)},
                    {"outside_allocator", outside_allocator_of(target.outside_allocator)}});
      if (batch_size) entry["largest_batch_size"] = *batch_size;
    } else {
      entry["problem"] = target.problem;
    }
    targets.push_back(std::move(entry));
  }
  return json_text(
      {{"event", "plans"},
       {"schema", event_schema_version},
       {"name", comparison.experiment_name},
       {"fits", comparison.fits_all()},
       {"batch_size", comparison.batch_size},
       {"asked_batch_size", comparison.asked_batch_size ? Json(*comparison.asked_batch_size) : Json(nullptr)},
       {"notes", comparison.notes},
       {"targets", std::move(targets)}});
}

}  // namespace trainer
