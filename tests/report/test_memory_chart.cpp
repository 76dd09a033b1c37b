#include <catch2/catch.hpp>

#include "engine/report/memory_chart.h"
#include "tests/report/report_samples.h"

using namespace trainer;

TEST_CASE("a chart has a row for each phase, at most twenty, and keeps the peak") {
  std::vector<TimelinePoint> timeline;
  for (int i = 0; i < 500; ++i) timeline.push_back({Phase::forward, i, 1000 * (i + 1)});
  for (int i = 0; i < 700; ++i) timeline.push_back({Phase::backward, 499 - i % 500, 500'000 - 100 * i});
  timeline[617].allocated = 987'654'321;
  timeline.push_back({Phase::update, 0, 77});
  const std::vector<ChartRow> rows = compress_timeline(timeline);
  CHECK(rows.size() <= 20);
  CHECK(rows.size() >= 17);
  CHECK(rows.front().phase == Phase::forward);
  CHECK(rows.back().phase == Phase::update);
  CHECK(rows.back().allocated == 77);
  int num_peaks = 0;
  for (const ChartRow& row : rows) {
    if (!row.is_peak) continue;
    ++num_peaks;
    CHECK(row.allocated == 987'654'321);
    CHECK(row.phase == Phase::backward);
  }
  CHECK(num_peaks == 1);
}

TEST_CASE("each stretch of a chart shows its highest point") {
  const std::vector<TimelinePoint> timeline = {{Phase::forward, 0, 10},
                                               {Phase::forward, 1, 30},
                                               {Phase::forward, 2, 20},
                                               {Phase::forward, 3, 25},
                                               {Phase::backward, 2, 5}};
  const std::vector<ChartRow> rows = compress_timeline(timeline, 3);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].allocated == 30);
  CHECK(rows[0].layer == 1);
  CHECK(rows[0].is_peak);
  CHECK(rows[1].allocated == 5);
}

TEST_CASE("more phases than rows still have one row each, and nothing gives no chart") {
  const std::vector<TimelinePoint> timeline = {{Phase::forward, 0, 1}, {Phase::backward, 0, 2}, {Phase::forward, 0, 3}};
  CHECK(compress_timeline(timeline, 1).size() == 3);
  CHECK(compress_timeline({}).empty());
  CHECK(memory_chart({}, {}, {}).empty());
}

TEST_CASE("bars are to scale, phases and the peak are marked, and a failed request is drawn on top") {
  const OutOfMemoryContext context = sample_context();
  const std::vector<std::string> labels = {"0 (linear)", "2 (conv2d)"};
  const std::vector<std::string> lines = lines_of(memory_chart(context.timeline, labels, {false, 60}, 32'768));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].find("  forward   0 (linear)    8.00 KiB  █") == 0);
  CHECK(lines[1].find("            2 (conv2d)   24.00 KiB  ") == 0);
  CHECK(lines[2].find("  backward  2 (conv2d)   32.00 KiB  ") == 0);
  CHECK(lines[2].find("◂ peak") != std::string::npos);
  CHECK(lines[3].find("+ 32.00 KiB") != std::string::npos);
  CHECK(lines[3].find("◂ not served") != std::string::npos);
  const auto count = [](const std::string& text, const std::string& what) {
    int number = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++number;
    return number;
  };
  // The failed request is as large as what was held: half of the bar is empty.
  CHECK(count(lines[3], "█") == count(lines[2], "█"));
  CHECK(count(lines[3], "░") == count(lines[3], "█"));
  CHECK(count(lines[0], "█") * 4 >= count(lines[2], "█") - 2);
  for (const std::string& line : lines) CHECK(display_width(line) <= 60);
}
