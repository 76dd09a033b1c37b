#include "engine/report/bench/bench_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/config/text/json_output.h"
#include "engine/report/memory/memory_json.h"

namespace trainer {
namespace {

std::int64_t whole(double number) { return std::llround(number); }

Json rows_of(const std::vector<BenchRow>& rows, const char* what) {
  Json json = Json::array();
  for (const BenchRow& row : rows) {
    json.push_back({{what, row.name},
                    {"calls", whole(row.num_calls)},
                    {"seconds", row.seconds()},
                    {"forward_seconds", row.forward},
                    {"backward_seconds", row.backward},
                    {"recompute_seconds", row.recompute},
                    {"update_seconds", row.update},
                    {"predicted_seconds", row.predicted_seconds},
                    {"flops", whole(row.flops)},
                    {"bytes", whole(row.num_bytes)},
                    {"bound_seconds", row.bound_seconds},
                    {"bound_by", row.bound_side()}});
  }
  return json;
}

}  // namespace

std::string bench_json(const BenchFindings& f) {
  const Ceilings& ceilings = f.ceilings;
  Json bounds = {{"f32_flops_per_second", ceilings.f32_flops_per_second},
                 {"bytes_per_second", ceilings.bytes_per_second},
                 {"call_seconds", ceilings.call_seconds}};
  if (ceilings.half_flops_per_second > 0) bounds["half_flops_per_second"] = ceilings.half_flops_per_second;
  const Json json = {{"event", "bench"},
                     {"schema", event_schema_version},
                     {"device", {{"kind", f.device_kind}, {"name", f.device_name}}},
                     {"batch_size", f.batch_size},
                     {"micro_batches", f.num_micro_batches},
                     {"steps", f.timing.num_steps},
                     {"observed_steps", f.timing.num_observed},
                     {"step_seconds", f.timing.step_seconds},
                     {"predicted_seconds", f.predicted.seconds},
                     {"op_seconds", f.timing.op_seconds()},
                     {"data_seconds", f.timing.data_seconds},
                     {"host_seconds", f.timing.host_seconds},
                     {"rates", rates_of(f.rates.origin, f.rates.source)},
                     {"bounds", bounds},
                     {"layers", rows_of(rows_by_layer(f), "layer")},
                     {"ops", rows_of(rows_by_kind(f), "op")}};
  return json_text(json);
}

std::string calibration_json(const Calibration& calibration, const std::string& device_kind,
                             const std::string& device_name, const std::string& path, double seconds) {
  const Json json = {{"event", "bench"},
                     {"schema", event_schema_version},
                     {"device", {{"kind", device_kind}, {"name", device_name}}},
                     {"rates", path},
                     {"calls", calibration.quality.num_calls},
                     {"call_error", calibration.quality.call_error},
                     {"step_error", calibration.quality.step_error},
                     {"host_seconds", calibration.rates.step_seconds},
                     {"seconds", seconds}};
  return json_text(json);
}

}  // namespace trainer
