#include "engine/config/text/nearest_word.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace trainer {
namespace {

constexpr std::size_t longest_word = 64;

char lower(char letter) { return static_cast<char>(std::tolower(static_cast<unsigned char>(letter))); }

/// Optimal string alignment distance (Damerau–Levenshtein without overlapping edits).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + change});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::string letters_of(std::string_view word, bool digits) {
  std::string result;
  for (const char letter : word)
    if ((std::isdigit(static_cast<unsigned char>(letter)) != 0) == digits) result += lower(letter);
  return result;
}

}  // namespace

std::string_view nearest_but_in_number(std::string_view word, std::span<const std::string> candidates) {
  const std::string_view found = nearest(word, candidates);
  const bool differ_in_number = letters_of(found, false) == letters_of(word, false) &&
                                letters_of(found, true).size() != letters_of(word, true).size() &&
                                !letters_of(word, true).empty();
  return differ_in_number ? std::string_view() : found;
}

std::string_view nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > longest_word) return {};
  const std::size_t farthest = std::max<std::size_t>(1, word.size() / 3);
  std::string_view best;
  std::size_t best_distance = farthest + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > longest_word) continue;
    const std::size_t distance = edit_distance(word, candidate);
    // A distance of the whole word shares nothing with it: 'x' is no misspelling of 'p'.
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace trainer
