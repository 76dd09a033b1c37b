#include "engine/report/page/thinned_curve.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace trainer {

TEST_CASE("A thinned curve keeps its ends, its lowest and highest points and where it is not finite") {
  const std::size_t count = GENERATE(9U, 10U, 2'001U, 100'003U);
  const std::size_t most = GENERATE(8U, 100U, 2'000U);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(std::sin(static_cast<double>(i) * 0.37) / (1.0 + static_cast<double>(i)));
  const std::size_t spike = count / 3, dip = count / 2, gap = 2 * count / 3 + 1;
  values[spike] = 50;
  values[dip] = -70;
  values[gap] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::size_t> kept = thinned_positions(values, most);
  CAPTURE(count, most);
  CHECK(kept.size() <= most);
  CHECK(std::is_sorted(kept.begin(), kept.end()));
  CHECK(std::adjacent_find(kept.begin(), kept.end()) == kept.end());
  CHECK(kept.front() == 0);
  CHECK(kept.back() == count - 1);
  for (const std::size_t position : {spike, dip, gap})
    CHECK(std::find(kept.begin(), kept.end(), position) != kept.end());
}

TEST_CASE("A curve of few points is kept whole") {
  CHECK(thinned_positions(std::vector<double>{}, 8).empty());
  CHECK(thinned_positions(std::vector<double>{3, 1, 2}, 8) == std::vector<std::size_t>{0, 1, 2});
  const std::vector<double> alike(5'000, 1.0);
  CHECK(thinned_positions(alike, 2'000).size() <= 2'000);
}

}  // namespace trainer
