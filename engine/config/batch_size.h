#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>

namespace trainer {

/// train.batch_size: a number of samples, or a word that stands for one.
class BatchSize {
 public:
  enum class Word : std::uint8_t {
    all,        ///< the whole training set
    automatic,  ///< `auto`: the largest that fits; settle_experiment (engine/plan) puts a number in its place
  };

  BatchSize(std::int64_t number) : value_(number) {}
  BatchSize(Word word) : value_(word) {}

  bool is_automatic() const { return *this == Word::automatic; }
  /// Nothing where a word stands for it.
  std::optional<std::int64_t> number() const {
    const auto* number = std::get_if<std::int64_t>(&value_);
    return number == nullptr ? std::nullopt : std::optional(*number);
  }

  friend bool operator==(const BatchSize&, const BatchSize&) = default;

 private:
  std::variant<std::int64_t, Word> value_;
};

}  // namespace trainer
