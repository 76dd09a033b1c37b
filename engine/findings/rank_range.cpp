#include "engine/findings/rank_range.h"

#include <fmt/format.h>

#include <bit>
#include <set>

#include "engine/config/experiment.h"
#include "engine/config/text/number_text.h"
#include "engine/errors.h"

namespace trainer {

std::vector<std::int64_t> RankRange::counts() const {
  std::set<std::int64_t> counts = {lowest, highest};
  for (auto count = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(lowest))); count < highest;
       count *= 2)
    counts.insert(count);
  return {counts.begin(), counts.end()};
}

RankRange read_rank_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  const auto read = [&](const std::string& number) {
    const auto value = read_integer(number);
    const auto* const integer = std::get_if<std::int64_t>(&value);
    if (integer == nullptr || *integer < 1 || *integer > most_ranks)
      throw ConfigError(fmt::format("--ranks '{}': write a number of ranks, 1 to {}, or a range of them such as 1..8",
                                    text, most_ranks));
    return *integer;
  };
  const RankRange range{read(text.substr(0, dots)), read(dots == std::string::npos ? text : text.substr(dots + 2))};
  if (range.lowest > range.highest)
    throw ConfigError(
        fmt::format("--ranks '{}' ends below its begin; write {}..{}", text, range.highest, range.lowest));
  return range;
}

std::string counts_text(const std::vector<std::int64_t>& counts, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == counts.size() ? fmt::format(" {} ", last) : ", ", counts[i]);
  return text;
}

}  // namespace trainer
