#include "cli/terminal/rates_warnings.h"

#include <fmt/format.h>

#include <cstdio>

#include "engine/config/text/utf8_text.h"

namespace trainer {

void RatesWarnings::tell(const std::string& problem) {
  if (!problem.empty() && told_.insert(problem).second)
    std::fputs(fmt::format("warning: {}\n", escaped(problem)).c_str(), stderr);
}

}  // namespace trainer
