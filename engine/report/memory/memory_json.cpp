#include "engine/report/memory/memory_json.h"

#include <nlohmann/json.hpp>

#include "engine/report/memory/outside_allocator.h"
#include "engine/report/text/change_text.h"
#include "engine/report/text/numbers_text.h"

namespace trainer {

Json by_category_of(const CategoryBytes& by_category) {
  Json json = Json::object();
  for (std::size_t i = 0; i < by_category.size(); ++i) json[std::string(category_names[i])] = by_category[i];
  return json;
}

Json by_layer_of(const std::vector<LiveMemory::LayerBytes>& by_layer) {
  Json json = Json::array();
  for (const auto& layer : by_layer)
    json.push_back(
        {{"layer", layer.layer}, {"bytes", layer.num_bytes}, {"by_category", by_category_of(layer.by_category)}});
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
                    {"what", change_text(fix)},
                    {"peak_reserved", fix.peak_reserved},
                    {"capacity", fix.capacity},
                    {"fits", fix.fits},
                    {"same_result", fix.same_result()},
                    {"numbers", numbers_name(fix.numbers)},
                    {"relative_step_time", fix.relative_step_time},
                    {"step_seconds", fix.step_seconds}});
  return json;
}

Json outside_allocator_of(const std::vector<NamedBytes>& outside) {
  Json parts = Json::array();
  for (const NamedBytes& part : outside) parts.push_back({{"name", part.name}, {"bytes", part.num_bytes}});
  return {{"bytes", sum_of(outside)}, {"parts", std::move(parts)}};
}

Json rates_of(MachineRates::Origin origin, const std::string& source) {
  return {{"origin", name_of(origin)}, {"source", source.empty() ? Json(nullptr) : Json(source)}};
}

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

}  // namespace trainer
