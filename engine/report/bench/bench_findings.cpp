#include "engine/report/bench/bench_findings.h"

#include <algorithm>
#include <map>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

double& seconds_of_phase(BenchRow& row, Phase phase) {
  switch (phase) {
    case Phase::forward:
      return row.forward;
    case Phase::recompute:
      return row.recompute;
    case Phase::backward:
      return row.backward;
    case Phase::update:
      return row.update;
    case Phase::load:
    case Phase::eval:
      break;
  }
  throw InternalError("internal error: a step neither loads nor evaluates");
}

void add_call(const BenchFindings& findings, const CallTime& time, BenchRow& row) {
  const OpCall& call = findings.program->calls[static_cast<std::size_t>(time.call)];
  const Ceilings& ceilings = findings.ceilings;
  const auto flops = static_cast<double>(definition_of(call.op.kind).flops(call.op));
  const auto num_bytes = static_cast<double>(num_operand_bytes(call.op));
  row.num_calls += time.times;
  seconds_of_phase(row, call.phase) += time.times * time.seconds;
  row.flops += time.times * flops;
  row.num_bytes += time.times * num_bytes;
  row.predicted_seconds += time.times * predicted_seconds(*findings.program, call, findings.rates);

  const bool in_half = has_half_operand(call.op) && ceilings.half_flops_per_second > 0;
  const double by_flops = flops / (in_half ? ceilings.half_flops_per_second : ceilings.f32_flops_per_second);
  const double by_bytes = num_bytes / ceilings.bytes_per_second;
  const double bound = std::max({by_flops, by_bytes, ceilings.call_seconds});
  row.bound_seconds += time.times * bound;
  if (bound == by_flops)
    row.bound_by_flops += time.times * bound;
  else if (bound == by_bytes)
    row.bound_by_bytes += time.times * bound;
  else
    row.bound_by_calls += time.times * bound;
}

}  // namespace

std::string BenchRow::bound_side() const {
  if (bound_by_flops >= bound_by_bytes && bound_by_flops >= bound_by_calls) return "compute";
  return bound_by_bytes >= bound_by_calls ? "memory" : "launch";
}

std::vector<BenchRow> rows_by_layer(const BenchFindings& findings) {
  const Program& program = *findings.program;
  std::vector<BenchRow> rows(program.layers.size() + 1);
  for (const CallTime& time : findings.timing.calls) {
    const LayerId layer = program.calls[static_cast<std::size_t>(time.call)].layer;
    BenchRow& row = layer == no_layer ? rows.back() : rows[static_cast<std::size_t>(layer)];
    if (row.name.empty()) row.name = program.layer_label(layer);
    add_call(findings, time, row);
  }
  std::erase_if(rows, [](const BenchRow& row) { return row.num_calls == 0; });
  return rows;
}

std::vector<BenchRow> rows_by_kind(const BenchFindings& findings) {
  std::map<std::string, BenchRow> by_name;
  for (const CallTime& time : findings.timing.calls) {
    const Op& op = findings.program->calls[static_cast<std::size_t>(time.call)].op;
    const std::string name = std::string(name_of(op.kind)) + (has_half_operand(op) ? ", 16 bit" : "");
    BenchRow& row = by_name[name];
    row.name = name;
    add_call(findings, time, row);
  }
  std::vector<BenchRow> rows;
  rows.reserve(by_name.size());
  for (auto& [name, row] : by_name) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const BenchRow& a, const BenchRow& b) { return a.seconds() > b.seconds(); });
  return rows;
}

}  // namespace trainer
