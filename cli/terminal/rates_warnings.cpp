#include "cli/terminal/rates_warnings.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/terminal/terminal.h"

namespace trainer {

void RatesWarnings::tell(const std::string& problem) {
  if (!problem.empty() && told_.insert(problem).second) write_text(stderr, fmt::format("warning: {}\n", problem));
}

}  // namespace trainer
