#pragma once

#include <string>

#include "engine/report/text/style.h"
#include "engine/train/events.h"

namespace trainer {

/// What a run ends with: how it went, accuracy, time and throughput, peaks and who held them, what it was adapted to,
/// where the files are.
/// `best` is what the best checkpoint was chosen by; `event_file` is named among them unless it is empty.
std::string run_summary(const EndEvent& event, Metric best, const std::string& event_file, const Style& style);

}  // namespace trainer
