#pragma once

#include <string>

#include "engine/report/text/style.h"

namespace trainer {

/// What the counters mean, one line each.
std::string memory_glossary(const Style& style);

}  // namespace trainer
