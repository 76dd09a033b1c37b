#include "engine/report/sweep/sweep_plot.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/config/sweep/sweep_grid.h"
#include "tests/report/plot/plot_text.h"
#include "tests/report/sweep/sweep_rows.h"

using namespace trainer;
using Catch::Contains;

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

  // What evaluations find is shown where it is, up to twice where the losses of training begin.
  rows[1].evaluations = {{20, 3.5, 0.1}};
  const std::string evaluated = sweep_plot("lr", keys, rows);
  CHECK_THAT(evaluated, Contains("lr=1: validation loss 3.5 at step 20"));
  CHECK(count_of(evaluated, ">4</text>") == count_of(svg, ">4</text>") + 1);  // a mark of the axis, above 3.5

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
