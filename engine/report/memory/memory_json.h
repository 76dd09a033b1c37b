#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/machine_rates.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/change.h"

namespace trainer {

/// Of configs/events.schema.json, which describes every event: counted up where a field is renamed, removed or means
/// something else.
inline constexpr int event_schema_version = 1;

// The parts that events about memory and time have in common: Note [Machine interface] in
// engine/report/run/event_json.h.

using Json = nlohmann::ordered_json;

Json by_category_of(const CategoryBytes& by_category);
Json by_layer_of(const std::vector<LiveMemory::LayerBytes>& by_layer);
Json top_of(const std::vector<LiveMemory::TopBuffer>& top);
Json fixes_of(const std::vector<Change>& fixes);
Json outside_allocator_of(const std::vector<NamedBytes>& outside);
Json step_memory_of(const StepMemory& memory);
/// Where predicted times come from: the origin, and the file or what was assumed, null where nothing is to say.
Json rates_of(MachineRates::Origin origin, const std::string& source);
/// The fields of an `oom` event that tell of the failure.
Json failure_of(const OutOfMemoryContext& context);

}  // namespace trainer
