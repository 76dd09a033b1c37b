#include "engine/report/run/loss_curve.h"

#include <catch2/catch.hpp>
#include <limits>
#include <sstream>

using namespace trainer;

namespace {

std::vector<std::string> rows_of(const LossCurve& curve, int width) {
  std::istringstream text(curve.text({false, width}));
  std::vector<std::string> rows;
  for (std::string row; std::getline(text, row);) rows.push_back(row);
  return rows;
}

/// Where the row's first dot stands, in columns behind the axis; none: npos.
std::size_t first_dot(const std::string& row) {
  const std::string behind = row.substr(row.find("│") + std::string("│").size());
  return behind.find_first_not_of(' ');
}

}  // namespace

TEST_CASE("a falling loss is drawn from the upper left to the lower right, with its ends named") {
  LossCurve curve;
  for (int step = 1; step <= 100; ++step) curve.add(step, 3.0 - 0.02 * step);
  const std::vector<std::string> rows = rows_of(curve, 80);
  REQUIRE(rows.size() == 6);
  CHECK_THAT(rows.front(), Catch::Contains("2.97 │") || Catch::Contains("2.98 │"));
  CHECK_THAT(rows[4], Catch::Contains("1 │") || Catch::Contains("1.01 │"));
  CHECK_THAT(rows[5], Catch::Contains("training loss, steps 1 to 100"));
  CHECK(first_dot(rows[0]) == 0);
  for (std::size_t i = 1; i < 5; ++i) CHECK(first_dot(rows[i]) > first_dot(rows[i - 1]));
  for (const std::string& row : rows) CHECK(display_width(row) <= 80);
  for (const std::string& row : rows_of(curve, 40)) CHECK(display_width(row) <= 40);
}

TEST_CASE("a curve of very many steps is the same curve, and a few steps are none") {
  LossCurve few, long_run;
  for (int step = 1; step < 8; ++step) few.add(step, step);
  CHECK(few.text({}).empty());
  for (int step = 1; step <= 1'000'000; ++step) long_run.add(step, step <= 500'000 ? 2.0 : 1.0);
  const std::vector<std::string> rows = rows_of(long_run, 100);
  REQUIRE(rows.size() == 6);
  CHECK_THAT(rows[0], Catch::Contains(" 2 │"));
  CHECK_THAT(rows[4], Catch::Contains(" 1 │"));
  CHECK_THAT(rows[5], Catch::Contains("steps 1 to 1000000"));
  CHECK(first_dot(rows[0]) == 0);
  // In the middle of sixty columns, but for one.
  CHECK(first_dot(rows[4]) >= 29);
  CHECK(first_dot(rows[4]) <= 30);
}

TEST_CASE("a loss that does not change or is not finite is drawn") {
  LossCurve curve;
  for (int step = 1; step <= 20; ++step) curve.add(step, 0.5);
  curve.add(21, std::numeric_limits<double>::quiet_NaN());
  curve.add(22, std::numeric_limits<double>::infinity());
  const std::vector<std::string> rows = rows_of(curve, 80);
  REQUIRE(rows.size() == 6);
  CHECK(first_dot(rows[0]) == 0);
  CHECK_THAT(rows[5], Catch::Contains("steps 1 to 20"));
}
