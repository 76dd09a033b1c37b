#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/plan/search/diagnosis.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What would not help and why, one paragraph each, indented; empty where nothing is known.
std::string diagnosis_text(const Diagnosis& diagnosis, const Style& style);

/// The same for machines; null where nothing is known.
nlohmann::ordered_json diagnosis_json(const Diagnosis& diagnosis);

/// "It uses 5.06 MiB at its peak; the capacity is 4.00 MiB: 1.06 MiB missing."; empty where not known.
std::string missing_memory_text(const Diagnosis& diagnosis);

}  // namespace trainer
