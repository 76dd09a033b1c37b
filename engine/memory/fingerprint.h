#pragma once

#include <cstdint>

namespace trainer {

/// A hash of a sequence of numbers; each goes through the finalizer of SplitMix64 (Steele et al., OOPSLA 2014), which
/// mixes all bits.
class Fingerprint {
 public:
  explicit Fingerprint(std::uint64_t start) : hash_(start) {}

  void mix(std::int64_t number) {
    hash_ = (hash_ ^ static_cast<std::uint64_t>(number)) + 0x9E3779B97F4A7C15u;
    hash_ = (hash_ ^ (hash_ >> 30)) * 0xBF58476D1CE4E5B9u;
    hash_ = (hash_ ^ (hash_ >> 27)) * 0x94D049BB133111EBu;
    hash_ ^= hash_ >> 31;
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_;
};

}  // namespace trainer
