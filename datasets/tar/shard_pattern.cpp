#include "datasets/tar/shard_pattern.h"

#include <fmt/format.h>
#include <glob.h>

#include <charconv>
#include <cstdint>
#include <string_view>

#include "engine/errors.h"

namespace trainer {
namespace {

constexpr std::int64_t most_shards = 100'000;

/// -1: no number.
std::int64_t number_of_shard(std::string_view text) {
  std::int64_t number = -1;
  constexpr std::size_t most_digits = 12;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_one = error == std::errc() && end == text.data() + text.size() && text.size() <= most_digits;
  return is_one && number >= 0 ? number : -1;
}

void expand_ranges(const std::string& pattern, std::vector<std::string>& names) {
  const std::size_t open = pattern.find('{');
  const std::size_t dots = open == std::string::npos ? open : pattern.find("..", open);
  const std::size_t close = dots == std::string::npos ? dots : pattern.find('}', dots);
  if (close == std::string::npos) {
    names.push_back(pattern);
    return;
  }
  const std::string first_text = pattern.substr(open + 1, dots - open - 1);
  const std::string last_text = pattern.substr(dots + 2, close - dots - 2);
  const std::int64_t first = number_of_shard(first_text), last = number_of_shard(last_text);
  if (first < 0 || last < first)
    throw DataError(fmt::format("'{{{}..{}}}' in '{}' is no range of numbers, such as {{0000..0009}}", first_text,
                                last_text, pattern));
  for (std::int64_t number = first; number <= last; ++number) {
    expand_ranges(
        fmt::format("{}{:0{}}{}", pattern.substr(0, open), number, first_text.size(), pattern.substr(close + 1)),
        names);
    if (static_cast<std::int64_t>(names.size()) > most_shards)
      throw DataError(fmt::format("'{}' stands for more than {} files", pattern, most_shards));
  }
}

struct GlobResult {
  GlobResult() = default;
  ~GlobResult() { globfree(&found); }
  GlobResult(const GlobResult&) = delete;
  GlobResult& operator=(const GlobResult&) = delete;
  glob_t found{};
};

}  // namespace

std::vector<std::string> shards_of(const std::string& pattern) {
  std::vector<std::string> names;
  expand_ranges(pattern, names);
  std::vector<std::string> files;
  for (std::string& name : names) {
    if (name.find_first_of("*?[") == std::string::npos) {
      files.push_back(std::move(name));
      continue;
    }
    GlobResult result;
    const int status = glob(name.c_str(), 0, nullptr, &result.found);
    if (status != 0 && status != GLOB_NOMATCH) throw DataError(fmt::format("cannot look for '{}'", name));
    if (status == GLOB_NOMATCH) files.push_back(std::move(name));  // which is then missed
    for (std::size_t i = 0; status == 0 && i < result.found.gl_pathc; ++i) files.emplace_back(result.found.gl_pathv[i]);
  }
  return files;
}

}  // namespace trainer
