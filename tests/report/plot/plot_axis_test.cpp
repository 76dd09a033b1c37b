#include "engine/report/plot/plot_axis.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

using namespace trainer;

TEST_CASE("axes have round ends and spread values evenly") {
  for (const double highest : {1.0, 1000.0, 1025.0, 7.5e6, 3.1e9}) {
    const HeightAxis bytes = bytes_axis(highest);
    CHECK(bytes.end >= highest);
    CHECK(bytes.end <= std::max(2 * highest, 1.0));
    CHECK(bytes.ticks.size() >= 2);
    CHECK(bytes.ticks.size() <= 8);
    CHECK(bytes.ticks.front().label == "0 B");
    CHECK(number_axis(highest).end >= highest);
    CHECK(number_axis(highest).ticks.size() <= 8);
  }
  CHECK(bytes_axis(double{3 << 20}).ticks[1].label == "512.00 KiB");
  CHECK(number_axis(0).ticks.size() >= 2);

  const ValueAxis doubling = value_axis({"8", "16", "32", "64"});
  CHECK(doubling.is_logarithmic);
  CHECK(doubling.positions[1] - doubling.positions[0] == Approx(doubling.positions[3] - doubling.positions[2]));
  const ValueAxis even = value_axis({"10", "20", "30", "40"});
  CHECK_FALSE(even.is_logarithmic);
  CHECK(even.positions[1] - even.positions[0] == Approx(even.positions[3] - even.positions[2]));
  CHECK_FALSE(value_axis({"0", "1", "10", "100"}).is_logarithmic);
  CHECK_FALSE(value_axis({"8", "all"}).is_continuous);
  CHECK(value_axis({"off"}).positions == std::vector<double>{0.5});
}

TEST_CASE("an axis of a range begins near its lowest, and is logarithmic where the range is wide") {
  const HeightAxis near = range_axis(0.90, 0.99);
  CHECK((near.begin <= 0.90 && near.begin >= 0.85 && near.end >= 0.99 && near.end <= 1.05));
  CHECK(near.at(near.begin) == Approx(0).margin(1e-12));
  CHECK(near.at(near.end) == Approx(1));
  CHECK(range_axis(0.1, 2.3).begin == 0);
  const HeightAxis wide = range_axis(0.003, 20);
  CHECK(wide.is_logarithmic);
  CHECK((wide.begin == Approx(0.001) && wide.end == Approx(100)));
  CHECK(wide.at(0.1) == Approx(0.4));
  CHECK(wide.at(0) == 0);
  CHECK(range_axis(1e-30, 1e30).ticks.size() <= 8);
  for (const double same : {0.0, 0.5}) CHECK(range_axis(same, same).ticks.size() >= 2);
  const HeightAxis negative = range_axis(-3, -1);
  CHECK((negative.begin == -3 && negative.end == Approx(-1)));
  const HeightAxis same_below_zero = linear_axis(-3.5, -3.5);
  CHECK((same_below_zero.begin == -4 && same_below_zero.end == 0));
}

TEST_CASE("the smallest and the largest numbers have axes with finite ends") {
  constexpr double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
  for (const HeightAxis& axis :
       {number_axis(least), number_axis(most), linear_axis(-most, most), linear_axis(-1.7e308, 1.7e308),
        linear_axis(-least, least), linear_axis(-most, -most), linear_axis(1e300, std::nextafter(1e300, most)),
        range_axis(least, most), logarithmic_axis(least, least), logarithmic_axis(least, most),
        logarithmic_axis(most, most)}) {
    CHECK((std::isfinite(axis.begin) && std::isfinite(axis.end) && axis.begin < axis.end));
    CHECK((!axis.ticks.empty() && axis.ticks.size() <= 10));
    for (const AxisTick& tick : axis.ticks) {
      CHECK((tick.at >= 0 && tick.at <= 1));
      CHECK(tick.label.find("inf") == std::string::npos);
      CHECK(tick.label.find("nan") == std::string::npos);
    }
  }
  const HeightAxis widest = linear_axis(-most, most);
  CHECK(widest.at(0) == Approx(0.5));
  CHECK(widest.share_of(INFINITY) == 1);
  CHECK_FALSE(widest.share_of(NAN));
  CHECK_FALSE(bytes_axis(0x1p63).ticks.back().label.starts_with("-"));
}

TEST_CASE("marks of a narrow range have labels that differ") {
  for (const auto& [lowest, highest] : {std::pair(0.6931471, 0.6931473), std::pair(1e6, 1e6 + 0.01),
                                        std::pair(-2.30258512, -2.30258509), std::pair(0.0, 3e-300)}) {
    const HeightAxis axis = linear_axis(lowest, highest);
    REQUIRE(axis.ticks.size() >= 2);
    for (std::size_t i = 1; i < axis.ticks.size(); ++i) CHECK(axis.ticks[i].label != axis.ticks[i - 1].label);
  }
  CHECK(linear_axis(0.6931471, 0.6931473).ticks[1].label == "0.69314715");
}

TEST_CASE("a logarithmic axis ends at 1, 2 or 5 times a power of ten, and has few marks over many") {
  const HeightAxis narrow = logarithmic_axis(0.9, 1.1);
  CHECK((narrow.begin == Approx(0.5) && narrow.end == Approx(2)));
  CHECK(narrow.at(1) == Approx(0.5));
  const HeightAxis wide = logarithmic_axis(3e-30, 4e30);
  CHECK((wide.begin <= 3e-30 && wide.end >= 4e30));
  for (const HeightAxis& axis : {narrow, wide, logarithmic_axis(1, 1), logarithmic_axis(1e-300, 1e300),
                                 logarithmic_axis(0.3, 299), logarithmic_axis(5, 5)}) {
    CHECK(axis.ticks.size() >= 2);
    CHECK(axis.ticks.size() <= 10);
    CHECK(axis.ticks.front().at == 0);
    CHECK(axis.ticks.back().at == Approx(1));
  }
  CHECK(logarithmic_axis(1, 10).end == Approx(10));
  const HeightAxis linear = linear_axis(0.003, 20);
  CHECK_FALSE(linear.is_logarithmic);
  CHECK(linear.begin == 0);
}
