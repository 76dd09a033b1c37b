#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <random>

#include "engine/memory/allocator.h"
#include "tests/memory/units.h"

namespace trainer::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(bound));
  }
  bool chance(int percent) { return below(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

/// Sizes around every threshold of the rules, many of them equal, so that ties are common.
inline std::int64_t random_size(Random& random) {
  switch (random.below(9)) {
    case 0:
      return random.below(2000);
    case 1:
      return random.below(4) * 512;
    case 2:
      return random.below(mib) + 1;
    case 3:
      return mib + random.below(3) - 1;
    case 4:
      return mib + random.below(9 * mib);
    case 5:
      return 10 * mib + random.below(1025) - 512;
    case 6:
      return (random.below(6) + 1) * mib;
    case 7:
      return 10 * mib + random.below(40 * mib);
    default:
      return (random.below(4) + 5) * 4 * mib;
  }
}

/// Frees one of the live blocks, in an allocator and in the model that names them.
template <typename Model>
void free_one(Random& random, Allocator& allocator, Model& model, std::map<int, Block>& live) {
  const auto chosen = std::next(live.begin(), random.below(static_cast<std::int64_t>(live.size())));
  model.free(chosen->first);
  allocator.free(chosen->second);
  live.erase(chosen);
}

}  // namespace trainer::test
