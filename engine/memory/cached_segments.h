#pragma once

#include <cstdint>
#include <vector>

namespace trainer {

/// What an allocator has cached once nothing of it is live, without addresses: another one that begins with it behaves
/// as that one would from there on (Allocator::hand_on).
struct CachedSegments {
  /// A part of an expandable segment, with memory behind it or without.
  struct Part {
    std::int64_t num_bytes = 0;
    bool is_mapped = true;
    friend bool operator==(const Part&, const Part&) = default;
  };
  struct Segment {
    std::int64_t num_bytes = 0;  ///< of an expandable segment: of its range
    bool small_pool = false;
    std::vector<Part> parts;  ///< of an expandable segment, in order; else empty
    friend bool operator==(const Segment&, const Segment&) = default;
  };
  std::vector<Segment> segments;  ///< in the order they were acquired

  /// What is reserved for them.
  std::int64_t num_bytes() const {
    std::int64_t sum = 0;
    for (const Segment& segment : segments) {
      if (segment.parts.empty()) sum += segment.num_bytes;
      for (const Part& part : segment.parts) sum += part.is_mapped ? part.num_bytes : 0;
    }
    return sum;
  }
  friend bool operator==(const CachedSegments&, const CachedSegments&) = default;
};

}  // namespace trainer
