#include "engine/report/page/page_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/report/memory/diagnosis_text.h"
#include "engine/report/page/fix_command.h"
#include "engine/report/page/memory_map.h"
#include "engine/report/plan/plan_json.h"
#include "engine/report/plan/plan_peak.h"
#include "engine/report/plan/plan_report.h"
#include "engine/report/text/layout_text.h"
#include "engine/report/text/step_time_text.h"

namespace trainer {
namespace {

/// Texts, each once, by number.
class NumberedTexts {
 public:
  std::int64_t number_of(const std::string& text) {
    const auto [found, is_new] = numbers_.emplace(text, static_cast<std::int64_t>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::vector<std::string> texts_;
};

template <typename Pieces, typename Value>
Json column_of(PageColumns& columns, const Pieces& pieces, Value value) {
  std::vector<std::int64_t> values;
  values.reserve(pieces.size());
  for (const auto& piece : pieces) values.push_back(static_cast<std::int64_t>(value(piece)));
  return columns.integers(values);
}

Json moments_of(const MemoryMap& map, const Program& program, PageColumns& columns) {
  NumberedTexts ops;
  std::vector<double> seconds;
  for (const MemoryMap::Moment& moment : map.moments) seconds.push_back(moment.seconds);
  Json json = {
      {"op", column_of(columns, map.moments,
                       [&](const MemoryMap::Moment& moment) {
                         const auto call = static_cast<std::size_t>(moment.call);
                         return moment.call < 0 ? -1 : ops.number_of(std::string(name_of(program.calls[call].op.kind)));
                       })},
      {"phase", column_of(columns, map.moments, [](const auto& moment) { return moment.phase; })},
      {"layer", column_of(columns, map.moments, [](const auto& moment) { return moment.layer; })},
      {"allocated", column_of(columns, map.moments, [](const auto& moment) { return moment.allocated; })},
      {"reserved", column_of(columns, map.moments, [](const auto& moment) { return moment.reserved; })},
      {"seconds", columns.numbers(seconds)}};
  json["ops"] = ops.texts();
  return json;
}

Json blocks_of(const MemoryMap& map, const Program& program, PageColumns& columns) {
  NumberedTexts types;
  std::vector<std::int64_t> number_of_buffer(program.buffers.size(), -1);
  std::vector<const Buffer*> buffers;
  for (const MemoryMap::Block& block : map.blocks) {
    std::int64_t& number = number_of_buffer[static_cast<std::size_t>(block.buffer)];
    if (number >= 0) continue;
    number = static_cast<std::int64_t>(buffers.size());
    buffers.push_back(&program.buffers[static_cast<std::size_t>(block.buffer)]);
  }
  std::vector<std::string> names;
  names.reserve(buffers.size());
  for (const Buffer* const buffer : buffers) names.push_back(buffer->name);
  Json of_buffers = {{"name", columns.texts(names)},
                     {"layer", column_of(columns, buffers, [](const Buffer* buffer) { return buffer->layer; })},
                     {"category", column_of(columns, buffers, [](const Buffer* buffer) { return buffer->category; })},
                     {"requested", column_of(columns, buffers, [](const Buffer* buffer) { return buffer->num_bytes; })},
                     {"type", column_of(columns, buffers, [&](const Buffer* buffer) {
                        return types.number_of(buffer->type.to_string());
                      })}};
  of_buffers["types"] = columns.texts(types.texts());
  const auto column = [&](auto value) { return column_of(columns, map.blocks, value); };
  Json of_blocks = {{"buffer", column([&](const MemoryMap::Block& block) {
                       return number_of_buffer[static_cast<std::size_t>(block.buffer)];
                     })},
                    {"phase", column([](const auto& block) { return block.phase; })},
                    {"range", column([](const auto& block) { return block.range; })},
                    {"offset", column([](const auto& block) { return block.offset; })},
                    {"bytes", column([](const auto& block) { return block.num_bytes; })},
                    {"begin", column([](const auto& block) { return block.begin; })},
                    {"end", column([](const auto& block) { return block.end; })}};
  return {{"buffers", std::move(of_buffers)}, {"blocks", std::move(of_blocks)}};
}

Json map_of(const TracedPlan& traced, PageColumns& columns) {
  const MemoryMap map = make_memory_map(traced.program, traced.trace, traced.call_seconds);
  const auto column = [&](const auto& pieces, auto value) { return column_of(columns, pieces, value); };
  Json json = blocks_of(map, traced.program, columns);
  json["step"] = map.step;
  json["evaluation"] = map.evaluation;
  json["peak"] = map.peak;
  json["moments"] = moments_of(map, traced.program, columns);
  json["segments"] = {{"range", column(map.segments, [](const auto& segment) { return segment.range; })},
                      {"offset", column(map.segments, [](const auto& segment) { return segment.offset; })},
                      {"bytes", column(map.segments, [](const auto& segment) { return segment.num_bytes; })},
                      {"begin", column(map.segments, [](const auto& segment) { return segment.begin; })},
                      {"end", column(map.segments, [](const auto& segment) { return segment.end; })}};
  json["ranges"] = column(map.ranges, [](const MemoryMap::Range& range) { return range.num_bytes; });
  json["layers"] = columns.texts(traced.findings.layer_labels);
  return json;
}

/// What plans each change for the same target.
Json commands_of(const PlanFindings& findings) {
  Json commands = Json::array();
  for (const Change& fix : findings.fixes)
    commands.push_back(fix_command({.path = findings.config_path,
                                    .overrides = findings.overrides,
                                    .set = fix.set,
                                    .gpu = findings.gpu_given,
                                    .capacity = findings.capacity_given}));
  return commands;
}

Json categories_of_stack() {
  // From the lowest to the highest of a stack: Note [Memory chart] in engine/report/memory/memory_chart.h.
  Json names = Json::array();
  for (const Category category :
       {Category::parameter, Category::frozen, Category::optimizer_state, Category::gradient, Category::activation,
        Category::input, Category::communication, Category::temporary, Category::workspace})
    names.push_back(static_cast<int>(category));
  return names;
}

}  // namespace

Json page_plan(TracedPlan traced, PageColumns& columns) {
  PlanFindings& findings = traced.findings;
  const Style page_style{.color = false, .width = 100};
  const Style unbroken{.color = false, .width = 100'000};  // the page breaks lines
  Json json = {{"stage", findings.stage},
               {"rank", traced.rank},
               {"layout", findings.has_ranks() ? layout_text(findings.parallel) : ""},
               {"report", plan_report(findings, page_style, /*full=*/true)},
               {"peak_text", peak_explanation(findings.shown().peak)},
               {"missing", missing_memory_text(findings.diagnosis)},
               {"diagnosis", findings.is_advised() ? diagnosis_text(findings.diagnosis, unbroken) : ""},
               {"rates", rates_sentence(findings.rates, findings.rates_source)},
               {"commands", commands_of(findings)},
               {"map", map_of(traced, columns)},
               {"categories", category_names},
               {"phases", phase_names},
               {"stack", categories_of_stack()}};
  // The map is finer than the timeline, of which there is an entry for each allocation and release.
  findings.plan.peak.timeline.clear();
  if (findings.unbounded) findings.unbounded->peak.timeline.clear();
  json["event"] = Json::parse(plan_json(findings));
  json["event"].erase("timeline");
  return json;
}

}  // namespace trainer
