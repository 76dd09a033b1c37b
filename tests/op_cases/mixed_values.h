#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "engine/ops/mixed_sample.h"
#include "tests/op_cases/op_case.h"

namespace trainer {

/// The operand of those samples.
inline Values mixed_values(const std::vector<MixedSample>& samples) {
  Values values;
  for (const MixedSample& sample : samples) {
    const auto words = std::bit_cast<std::array<std::int32_t, sizeof(MixedSample) / sizeof(std::int32_t)>>(sample);
    values.insert(values.end(), words.begin(), words.end());
  }
  return values;
}

/// A batch of those targets, of samples that are mixed by shares of all kinds, each with one further before it.
inline std::vector<MixedSample> mixed_targets(const Values& targets) {
  constexpr std::array<float, 5> shares = {0.25F, 1, 0.5F, 0, 0.875F};
  std::vector<MixedSample> samples(targets.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t partner = (i + samples.size() - 1) % samples.size();
    samples[i] = {.partner = static_cast<std::int32_t>(partner),
                  .partner_class = static_cast<std::int32_t>(targets[partner]),
                  .share = shares[i % shares.size()]};
  }
  return samples;
}

}  // namespace trainer
