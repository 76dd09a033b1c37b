#include "engine/train/files/nearest_tensor.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <span>
#include <utility>

#include "engine/config/text/nearest_word.h"

namespace trainer {
namespace {

/// How many of the last parts two names share, and whether that is all of one of them.
struct SharedEnd {
  std::size_t num_parts = 0;
  bool is_whole = false;
};

SharedEnd shared_end(std::string_view a, std::string_view b) {
  SharedEnd shared;
  for (;;) {
    const std::size_t dot_a = a.rfind('.'), dot_b = b.rfind('.');
    const auto last = [](std::string_view name, std::size_t dot) {
      return dot == std::string_view::npos ? name : name.substr(dot + 1);
    };
    if (last(a, dot_a) != last(b, dot_b)) return shared;
    ++shared.num_parts;
    if (dot_a == std::string_view::npos || dot_b == std::string_view::npos) {
      shared.is_whole = true;
      return shared;
    }
    a = a.substr(0, dot_a);
    b = b.substr(0, dot_b);
  }
}

}  // namespace

std::string nearest_tensor_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t most_candidates = 2000;
  const std::span<const std::string> looked_at(candidates.data(), std::min(candidates.size(), most_candidates));
  std::string_view best;
  SharedEnd best_end;
  for (const std::string& candidate : looked_at) {
    const SharedEnd end = shared_end(name, candidate);
    const bool counts = end.num_parts >= 2 || end.is_whole;
    if (!counts || std::pair(end.is_whole, end.num_parts) <= std::pair(best_end.is_whole, best_end.num_parts)) continue;
    best = candidate;
    best_end = end;
  }
  if (best_end.is_whole) return std::string(best);
  const std::string_view word = nearest(name, looked_at);
  return std::string(word.empty() ? best : word);
}

std::string common_prefix(const std::vector<std::string>& names, const std::vector<std::string>& others) {
  if (names.empty() || names.size() != others.size()) return "";
  const std::set<std::string_view> wanted(others.begin(), others.end());
  const std::string& first = names.front();
  for (std::size_t dot = first.find('.'); dot != std::string::npos; dot = first.find('.', dot + 1)) {
    const std::string_view prefix = std::string_view(first).substr(0, dot + 1);
    const bool is_plain = std::all_of(prefix.begin(), prefix.end(), [](unsigned char letter) {
      return (letter < 0x80 && std::isalnum(letter) != 0) || letter == '_' || letter == '-' || letter == '.';
    });
    const bool fits =
        is_plain && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
          return name.starts_with(prefix) && wanted.contains(std::string_view(name).substr(prefix.size()));
        });
    if (fits) return std::string(prefix);
  }
  return "";
}

}  // namespace trainer
