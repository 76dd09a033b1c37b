#include "datasets/tokens/synthetic_tokens.h"

#include <algorithm>

#include "datasets/permutation.h"

namespace trainer {

std::int32_t SyntheticTokens::write_behind_first(std::int64_t index, std::int32_t* tokens) const {
  const auto vocabulary = static_cast<std::uint64_t>(options_.vocabulary);
  const PhiloxStream followers{options_.seed, synthetic_prototype_stream, 0};
  const PhiloxStream draws{options_.seed, synthetic_noise_stream, static_cast<std::uint32_t>(options_.first + index)};
  const auto any = [&](std::uint32_t word) { return (word >> 2) % vocabulary; };
  auto words = draws.words(0);
  const std::uint64_t first = any(words[0]);
  std::uint64_t token = first;
  for (std::uint64_t place = 1; place <= static_cast<std::uint64_t>(options_.length); ++place) {
    if (place % 4 == 0) words = draws.words(place / 4);
    const std::uint32_t word = words[place % 4];
    token = word % 4 == 0 ? any(word) : any(followers.word(token));
    *tokens++ = static_cast<std::int32_t>(token);
  }
  return static_cast<std::int32_t>(first);
}

void SyntheticTokens::read(std::int64_t index, std::span<std::byte* const> fields) const {
  auto* const tokens = reinterpret_cast<std::int32_t*>(fields[0]);
  auto* const targets = reinterpret_cast<std::int32_t*>(fields[1]);
  tokens[0] = write_behind_first(index, targets);
  std::copy_n(targets, options_.length - 1, tokens + 1);
}

void SyntheticTokens::read_classes(std::int64_t index, std::int32_t* classes) const {
  write_behind_first(index, classes);
}

}  // namespace trainer
