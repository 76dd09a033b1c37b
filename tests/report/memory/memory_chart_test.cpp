#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "engine/report/memory/memory_chart.h"
#include "tests/report/report_samples.h"

using namespace trainer;

namespace {

TimelinePoint point(Phase phase, LayerId layer, std::int64_t parameter, std::int64_t activation,
                    std::int64_t workspace = 0) {
  TimelinePoint result{phase, layer, parameter + activation + workspace};
  result.by_category[static_cast<std::size_t>(Category::parameter)] = parameter;
  result.by_category[static_cast<std::size_t>(Category::activation)] = activation;
  result.by_category[static_cast<std::size_t>(Category::workspace)] = workspace;
  return result;
}

/// The sixteen rows of cells, the highest first, without their labels.
std::vector<std::string> cells_of(const std::string& chart) {
  std::vector<std::string> rows;
  for (const std::string& line : lines_of(chart)) {
    for (const std::string axis : {"│", "┤"}) {
      const std::size_t at = line.find(axis);
      if (at != std::string::npos) rows.push_back(line.substr(at + axis.size()));
    }
  }
  return rows;
}

std::string column_of(const std::vector<std::string>& rows, std::size_t column) {
  std::string cells;
  for (const std::string& row : rows)
    if (column < row.size() && row[column] != ' ') cells += row[column];
  return cells;
}

}  // namespace

TEST_CASE("a chart keeps the highest point of every stretch, whole with its categories, and marks the first peak") {
  std::vector<TimelinePoint> timeline;
  for (int i = 0; i < 503; ++i) timeline.push_back(point(Phase::forward, i, 512, 1000 * (i + 1)));
  for (int i = 0; i < 701; ++i) timeline.push_back(point(Phase::backward, 500 - i % 500, 512, 500'000 - 100 * i));
  timeline[617] = point(Phase::backward, 7, 512, 900'000, 4096);
  timeline[618] = timeline[617];
  timeline.push_back(point(Phase::update, 0, 77, 0));
  for (const std::size_t most : {std::size_t{1}, std::size_t{2}, std::size_t{83}, timeline.size()}) {
    const std::vector<ChartColumn> columns = chart_columns(timeline, most);
    REQUIRE(columns.size() == most);
    CHECK(std::count_if(columns.begin(), columns.end(), [](const ChartColumn& c) { return c.is_peak; }) == 1);
    const auto peak = std::find_if(columns.begin(), columns.end(), [](const ChartColumn& c) { return c.is_peak; });
    CHECK(peak->allocated == 904'608);
    CHECK(peak->layer == 7);
    CHECK(peak->by_category == timeline[617].by_category);
    CHECK(static_cast<std::size_t>(peak - columns.begin()) == 617 * most / timeline.size());
    for (const ChartColumn& column : columns)
      CHECK(std::accumulate(column.by_category.begin(), column.by_category.end(), std::int64_t{0}) == column.allocated);
  }
}

TEST_CASE("points fewer than columns are equally wide, and nothing gives no chart") {
  const std::vector<TimelinePoint> timeline = {point(Phase::forward, 0, 1, 0), point(Phase::backward, 0, 2, 0),
                                               point(Phase::update, 0, 3, 0)};
  CHECK(chart_columns(timeline, 11).size() == 9);
  CHECK(chart_columns(timeline, 11)[3].allocated == 2);
  CHECK(chart_columns({}, 10).empty());
  CHECK(memory_chart({}, MemoryChartOptions{}, {}).empty());
}

TEST_CASE("categories are stacked to scale, what stays lowest") {
  // 4, 8 and 4 of 16 rows at the peak; half of that behind it.
  const std::vector<TimelinePoint> timeline = {point(Phase::forward, 0, 4096, 0),
                                               point(Phase::forward, 1, 4096, 8192, 4096),
                                               point(Phase::backward, 1, 4096, 4096)};
  const std::string chart = memory_chart(timeline, MemoryChartOptions{}, {});
  const std::vector<std::string> rows = cells_of(chart);
  REQUIRE(rows.size() == 16);
  const std::size_t each = rows.back().size() / 3;
  CHECK(column_of(rows, 0) == "PPPP");
  CHECK(column_of(rows, each) == "WWWWAAAAAAAAPPPP");
  CHECK(column_of(rows, 2 * each) == "AAAAPPPP");
  for (const char* text : {"16.00 KiB ┤", "12.00 KiB ┤", "▾ peak 16.00 KiB, forward\n", " forward ──", "backward ──",
                           "P parameter 4.00 KiB", "A activation 8.00 KiB", "W workspace 4.00 KiB"}) {
    INFO(chart);
    CHECK(chart.find(text) != std::string::npos);
  }
  CHECK(chart.find("gradient") == std::string::npos);
}

TEST_CASE("with colour the chart has the same columns") {
  const OutOfMemoryContext context = sample_context();
  const std::vector<std::string> plain = lines_of(memory_chart(context.timeline, MemoryChartOptions{}, {false, 80}));
  const std::vector<std::string> painted = lines_of(memory_chart(context.timeline, MemoryChartOptions{}, {true, 80}));
  REQUIRE(plain.size() == painted.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(display_width(plain[i]) == display_width(painted[i]));
}

TEST_CASE("what is computed again is marked in the backward pass") {
  std::vector<TimelinePoint> timeline;
  for (int i = 0; i < 40; ++i) timeline.push_back(point(Phase::forward, 0, 512, 512 * i));
  for (int i = 0; i < 40; ++i)
    timeline.push_back(point(i % 8 == 7 ? Phase::recompute : Phase::backward, 0, 512, 512 * (40 - i)));
  timeline.push_back(point(Phase::update, 0, 512, 0));
  const std::string chart = memory_chart(timeline, MemoryChartOptions{}, {});
  CHECK(chart.find("backward ") != std::string::npos);
  CHECK(chart.find("─r") != std::string::npos);
  CHECK(chart.find("r recompute, u update\n") != std::string::npos);
}

TEST_CASE("a failed request is drawn on top of the end, and the capacity as a line") {
  const std::vector<TimelinePoint> timeline = {point(Phase::forward, 0, 8192, 0), point(Phase::backward, 1, 8192, 0)};
  const std::vector<std::string> labels = {"0 (linear)", "2 (conv2d)"};
  const std::string chart =
      memory_chart(timeline, {.layer_labels = labels, .failed_bytes = 8192, .capacity = 12'288}, {false, 60});
  const std::vector<std::string> rows = cells_of(chart);
  REQUIRE(rows.size() == 16);
  const auto count = [&](const std::string& what) {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const std::string& row) { return row.find(what) != std::string::npos; });
  };
  CHECK(count("░") == 8);
  CHECK(count("P") == 8);
  CHECK(count("╌") == 1);
  CHECK(rows[3].find("╌") == 0);
  CHECK(chart.find("12.00 KiB ┤╌") != std::string::npos);
  CHECK(chart.find("░ 8.00 KiB not served") != std::string::npos);
  CHECK(chart.find("╌ the capacity") != std::string::npos);
  CHECK(chart.find("peak 8.00 KiB, forward, 0 (linear)") != std::string::npos);
}

TEST_CASE("no line of a chart is wider than the terminal, wherever the peak lies and however long its layer's name") {
  const std::vector<std::string> labels = {"a name that is as long as forty characters (conv2d)"};
  for (const int width : {60, 61, 80, 100}) {
    for (std::size_t peak = 0; peak < 97; peak += 8) {
      std::vector<TimelinePoint> timeline(97, point(Phase::forward, 0, 512, 512));
      timeline[peak] = point(Phase::backward, 0, 512, 1024, 512);
      for (const std::int64_t failed : {0, 4096})
        for (const std::string& line :
             lines_of(memory_chart(timeline, {.layer_labels = labels, .failed_bytes = failed}, {false, width})))
          if (display_width(line) > static_cast<std::size_t>(width)) FAIL_CHECK(width << ": " << line);
    }
  }
}
