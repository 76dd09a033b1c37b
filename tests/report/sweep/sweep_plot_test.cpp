#include "engine/report/sweep/sweep_plot.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/config/sweep/sweep_grid.h"
#include "engine/report/sweep/plot_axis.h"
#include "tests/report/sweep/sweep_rows.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// What is wrong with a text as XML, as far as the plot uses it; empty: nothing.
std::string xml_mistake(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '&') {
      const std::string entity = text.substr(at, text.find(';', at) - at + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") return "entity " + entity;
    }
    if (static_cast<unsigned char>(text[at]) < 0x20 && text[at] != '\n') return "a control character";
    if (text[at] != '<') {
      if (open.empty() && text[at] != '\n') return "text outside the root";
      ++at;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without its end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag.substr(1) + "> closes nothing";
      open.pop_back();
      continue;
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || tag.find('<') != std::string::npos) return "<" + tag;
    if (tag.back() != '/') open.push_back(tag.substr(0, tag.find(' ')));
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

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

TEST_CASE("the plot of a sweep is XML that holds every point") {
  const std::vector<SweepRow> rows = {measured({"8"}, 10 << 20, 500), measured({"16"}, 20 << 20, 900),
                                      measured({"32"}, 40 << 20, 1000), without_memory({"64"})};
  const std::string svg = sweep_plot("a < \"b\" & c\x01", SweepGrid({"train.batch_size=8..64:*2"}).keys(), rows);
  CHECK(xml_mistake(svg) == "");
  CHECK_THAT(svg, Contains("a &lt; &quot;b&quot; &amp; c") && Contains("train.batch_size (logarithmic)") &&
                      Contains("capacity 64.00 MiB") && Contains("out of memory") && Contains("samples/s") &&
                      Contains("peak memory"));
  // Allocated, reserved and speed of what was measured; a cross for what was not.
  CHECK(count_of(svg, "batch_size=8: done, allocated 10.00 MiB, reserved 12.00 MiB, 500.0 samples/s") == 3);
  CHECK(count_of(svg, "batch_size=64: oom") == 1);
  CHECK(count_of(svg, "<polyline") == 4);  // and the capacity

  // Heights are the values': the reserved line ends, at 42 MiB, as far above 22 MiB as that is above 12 MiB, doubled.
  std::size_t line = 0;
  for (int i = 0; i < 3; ++i) line = svg.find("<polyline points=", line + 1);  // behind capacity and allocated
  CHECK(svg.find("class=\"line k0\"", line) < svg.find('\n', line));
  std::vector<double> heights;
  for (std::size_t at = svg.find(',', line); heights.size() < 3; at = svg.find(',', at + 1))
    heights.push_back(std::stod(svg.substr(at + 1)));
  CHECK(heights[1] - heights[2] == Approx(2 * (heights[0] - heights[1])).margin(0.3));
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
}

TEST_CASE("the plot of runs draws the loss of each over its steps, and what evaluations found") {
  std::vector<SweepRow> rows = {measured({"0.01"}, 10 << 20, 500), measured({"1"}, 10 << 20, 500)};
  rows[0].train_losses = {{10, 2.0}, {20, 1.0}, {30, 0.5}};
  rows[1].train_losses = {{10, 2.0}, {20, 900.0}};  // it diverges
  rows[0].evaluations = {{30, 0.75, 0.9}};
  const std::vector<SweptKey> keys = SweepGrid({"optimizer.lr=0.01,1"}).keys();
  const std::string svg = sweep_plot("lr", keys, rows);
  CHECK(xml_mistake(svg) == "");
  CHECK_THAT(svg, Contains(">training loss<") && Contains(">validation loss<") && Contains(">accuracy<") &&
                      Contains(">lr=0.01<") && Contains(">lr=1<") && Contains(">step<") &&
                      Contains("lr=0.01: validation loss 0.75 at step 30"));
  // Equal steps are equal widths, and equal falls equal heights: 2, 1, 0.5.
  std::size_t line = svg.find("lr=0.01: training loss 2 at step 10");
  line = svg.rfind("<polyline", line);
  std::vector<double> numbers;
  std::size_t at = svg.find('"', line) + 1;
  for (int i = 0; i < 6; ++i) {
    std::size_t length = 0;
    numbers.push_back(std::stod(svg.substr(at), &length));
    at += length + 1;
  }
  CHECK(numbers[2] - numbers[0] == Approx(numbers[4] - numbers[2]).margin(0.2));
  CHECK(numbers[3] - numbers[1] == Approx(2 * (numbers[5] - numbers[3])).margin(0.3));
  // What diverges ends at the upper edge, and the others are not flattened.
  CHECK(numbers[5] - numbers[1] > 60);

  std::vector<SweepRow> many;
  for (int i = 10; i < 30; ++i) {
    many.push_back(measured({std::to_string(i)}, 10 << 20, 500));
    many.back().train_losses = {{1, 2.0}, {2, 1.0}};
  }
  const std::string cut = sweep_plot("seeds", SweepGrid({"seed=10..29:+1"}).keys(), many);
  CHECK_THAT(cut, Contains("and 8 curves in sweep.jsonl") && Contains(">seed=21<"));
  CHECK(count_of(cut, ">seed=22<") == 0);
}

TEST_CASE("a sweep over texts is plotted as bars, many combinations as the first six, and failures by their name") {
  std::vector<SweepRow> rows;
  for (const char* value : {"bf16", "off"})
    for (int i = 0; i < 9; ++i) rows.push_back(measured({value, std::to_string(i)}, 10 << 20, 500));
  rows.front() = without_memory({"bf16", "0"});
  rows.front().status = PointStatus::crashed;
  const std::string svg = sweep_plot("bars", SweepGrid({"train.amp=bf16,off", "seed=0..8:+1"}).keys(), rows);
  CHECK(xml_mistake(svg) == "");
  CHECK(count_of(svg, "<rect") == 1 + 6 + 2 + 3 * (2 * 6 - 1));  // paper, legend, bars
  CHECK_THAT(svg, Contains("and 3 combinations in sweep.csv") && Contains(">crashed<") && Contains("seed=5") &&
                      !Contains("seed=6"));
  // Nothing measured at all is a picture too.
  CHECK(xml_mistake(sweep_plot("none", SweepGrid({"a=1,2"}).keys(), {without_memory({"1"})})) == "");
}
