#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/report/text/style.h"

namespace trainer {

/// A word of the reports, and what it means in one line.
struct ReportWord {
  std::string_view word, meaning;
};

/// Null: it is no word of the reports. Case, blanks, '-' and '_' do not count.
const ReportWord* find_report_word(std::string_view word);
/// All of them, for suggestions.
std::vector<std::string> report_words();

/// What the counters mean, one line each.
std::string memory_glossary(const Style& style);

}  // namespace trainer
