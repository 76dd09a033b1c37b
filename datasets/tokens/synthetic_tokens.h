#pragma once

#include <cstdint>

#include "datasets/dataset.h"

namespace trainer {

struct SyntheticTokensOptions {
  std::int64_t length = 1;  ///< of a sample
  std::int64_t vocabulary = 1;
  std::int64_t first = 0;  ///< the number of the first sample, so that parts of the data have none in common
  std::int64_t size = 0;
  std::uint64_t seed = 0;
};

/// Sequences of i32 tokens (length), and of each the same a token on, computed when they are read, each from (seed,
/// number) alone: three of four tokens are followed by the one that the seed has for them, the fourth by any.
class SyntheticTokens final : public Dataset {
 public:
  explicit SyntheticTokens(const SyntheticTokensOptions& options)
      : Dataset({{DType::i32, Shape{options.length}}}, {DType::i32, Shape{options.length}}), options_(options) {}

  std::int64_t size() const override { return options_.size; }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override;
  void read_classes(std::int64_t index, std::int32_t* classes) const override;

 private:
  /// Tokens 1 … length; returns token 0.
  std::int32_t write_behind_first(std::int64_t index, std::int32_t* tokens) const;

  SyntheticTokensOptions options_;
};

}  // namespace trainer
