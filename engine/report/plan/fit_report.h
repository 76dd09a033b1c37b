#pragma once

#include <string>

#include "engine/findings/find_fit.h"
#include "engine/report/text/style.h"

namespace trainer {

/// For people: the answer first, then what it rests on, then the line to paste.
std::string fit_report(const FitFindings& findings, const Style& style);

/// The `fit` event.
std::string fit_json(const FitFindings& findings);

}  // namespace trainer
