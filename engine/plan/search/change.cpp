#include "engine/plan/search/change.h"

#include <cmath>
#include <tuple>

namespace trainer {
namespace {

/// Equal for times that are about equal, so that it orders.
int speed_class(const Change& change) {
  if (!(change.relative_step_time > 0)) return 0;
  return static_cast<int>(std::lround(std::log(change.relative_step_time) / std::log(same_speed)));
}

}  // namespace

bool is_advised_before(const Change& a, const Change& b) {
  const auto rank = [](const Change& change) {
    return std::make_tuple(change.raises_limit(), change.numbers, speed_class(change), change.set.size());
  };
  return rank(a) < rank(b);
}

}  // namespace trainer
