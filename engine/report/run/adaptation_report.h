#pragma once

#include <string>

#include "engine/report/text/style.h"
#include "engine/train/events.h"

namespace trainer {

/// What did not fit, what the run goes on with, and what that costs; some five lines.
std::string adaptation_report(const AdaptEvent& event, const Style& style);

/// One line, where the machine interface carries the rest.
std::string adaptation_message(const AdaptEvent& event);

}  // namespace trainer
