#include "engine/report/sweep/sweep_charts.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "tests/report/plot/plot_text.h"
#include "tests/report/sweep/sweep_rows.h"

using namespace trainer;
using Catch::Contains;

TEST_CASE(
    "a sweep shows the losses of all points together, and memory over a key with the capacity and what lacked it") {
  std::vector<SweepRow> rows = {measured({"8"}, 10 << 20, 500), measured({"16"}, 20 << 20, 900),
                                measured({"32"}, 40 << 20, 1000), without_memory({"64"})};
  rows[0].train_losses = {{10, 2.0}, {20, 1.0}, {30, 0.5}};
  rows[1].train_losses = {{10, 2.0}, {20, 1.5}};
  rows[1].evaluations = {{20, 0.75, 0.9}};
  const std::string text = sweep_charts(SweepGrid({"train.batch_size=8..64:*2"}).keys(), rows, {.width = 80});
  INFO(text);
  CHECK_THAT(text, Contains("A batch_size=8") && Contains("B batch_size=16") && Contains("evaluation") &&
                       Contains("c capacity 64.00 MiB") && Contains("× out of memory"));
  CHECK(count_of(text, "×") == 2);  // in the legend, and the point
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 80);
}

TEST_CASE("what a sweep does not know it does not draw") {
  const std::vector<SweptKey> keys = SweepGrid({"optimizer.lr=0.1,1"}).keys();
  std::vector<SweepRow> rows = {measured({"0.1"}, 10 << 20, 500), measured({"1"}, 10 << 20, 500)};
  CHECK(sweep_charts(keys, rows, {}).empty());  // memory is the same for all, and there are no curves
  CHECK(sweep_charts(keys, {}, {}).empty());
  CHECK(sweep_charts(SweepGrid({"train.amp=off,bf16"}).keys(),
                     {measured({"bf16"}, 10 << 20, 500), measured({"off"}, 20 << 20, 500)}, {})
            .empty());
  rows[1].train_losses = {{1, 2.0}, {2, 1e30}};
  CHECK_THAT(sweep_charts(keys, rows, {}), Contains("lr=1") && !Contains("lr=0.1 "));
  std::vector<SweepRow> many;
  for (int i = 10; i < 30; ++i) {
    many.push_back(measured({std::to_string(i)}, i << 20, 500));
    many.back().train_losses = {{1, 2.0}, {2, 1.0}};
  }
  CHECK_THAT(sweep_charts(SweepGrid({"seed=10..29:+1"}).keys(), many, {}),
             Contains("and 8 curves in sweep.jsonl") && Contains("L seed=21") && !Contains("seed=22"));
}
