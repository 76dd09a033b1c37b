#pragma once

#include <string>

#include "engine/findings/find_fit.h"
#include "engine/report/text/style.h"

namespace trainer {

/// Of the choices of a search for layouts: what ranks share, and what becomes of it.
std::string layouts_table(const FitFindings& findings, const Style& style);

/// Which GPUs and layouts were looked at, and what the table's columns are.
std::string searched_layouts_text(const SearchedLayouts& searched, bool knows_links);

}  // namespace trainer
