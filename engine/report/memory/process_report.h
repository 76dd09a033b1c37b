#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/plan/process_memory.h"
#include "engine/report/text/style.h"

namespace trainer {

// `touched`: what is written of the allocator's segments, MemoryPlan::peak_touched.

/// Note [The process] as a table: what the allocator holds, the named lines and what they come to. A GPU's allocator is
/// left out. Empty where the host holds nothing.
std::string process_memory_table(const ProcessMemory& memory, std::int64_t touched, const Style& style);

/// The same in a sentence, behind what was measured (0: nothing was).
std::string process_memory_text(const ProcessMemory& memory, std::int64_t touched, std::int64_t peak_resident);

/// What the process as a whole will hold, or on a GPU what is outside the allocator: a line of a report.
std::string process_line(const ProcessMemory& memory, std::int64_t touched,
                         const std::vector<NamedBytes>& outside_allocator, const Style& style);

/// {"parts": [{"name", "bytes"}], "beside_allocator", "expected_resident_peak"}; the last is null on a
/// GPU, and where nothing was planned (`touched` is 0).
nlohmann::json process_memory_json(const ProcessMemory& memory, std::int64_t touched);

/// "The system has no memory left for a batch of samples that is read ahead: 76.29 MiB. …", with what to do.
std::string host_out_of_memory_message(const HostOutOfMemory& error);

}  // namespace trainer
